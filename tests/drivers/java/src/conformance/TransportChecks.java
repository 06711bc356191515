package conformance;

import static conformance.Harness.equal;
import static conformance.Harness.expect;
import static conformance.Harness.raises;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletionStage;

/** Paging, sizes, concurrency, compression and protocol versions. */
final class TransportChecks {
  private static final int ROWS = 1100;
  private static final int PAGE = 97;
  private final Context c;

  TransportChecks(Context c) {
    this.c = c;
  }

  void addTo(Harness checks) {
    checks.add("paging", this::paging);
    checks.add("paging_resumes_elsewhere", this::pagingResumes);
    checks.add("five_hundred_at_once", this::fiveHundred);
    checks.add("large_values", this::largeValues);
    for (int version = 3; version <= 5; version++) {
      for (String compression : new String[] {"none", "lz4", "snappy"}) {
        if (version == 5 && compression.equals("snappy")) {
          continue; // version 5 knows LZ4 only
        }
        String protocol = "V" + version;
        checks.add("protocol_v" + version + "_" + compression, () -> subset(protocol, compression));
      }
    }
    checks.add("heartbeats", this::heartbeats);
  }

  private void paging() throws Exception {
    String table = c.table("paged");
    c.run("CREATE TABLE " + table + " (p int, c int, v text, PRIMARY KEY (p, c))");
    PreparedStatement insert = c.session.prepare("INSERT INTO " + table + " (p, c, v) VALUES (?, ?, ?)");
    List<CompletionStage<AsyncResultSet>> pending = new ArrayList<>();
    for (int n = 0; n < ROWS; n++) {
      pending.add(c.session.executeAsync(insert.bind(n % 7, n, "row " + n)));
      if (pending.size() == 100 || n == ROWS - 1) {
        for (CompletionStage<AsyncResultSet> one : pending) {
          one.toCompletableFuture().get();
        }
        pending.clear();
      }
    }
    Set<Integer> seen = new HashSet<>();
    int rows = 0;
    for (Row row : c.session.execute(SimpleStatement.newInstance("SELECT c FROM " + table).setPageSize(PAGE))) {
      seen.add(row.getInt(0));
      rows++;
    }
    equal(List.of(rows, seen.size()), List.of(ROWS, ROWS), "rows, distinct rows");
    int next = 3;
    PreparedStatement partition = c.session.prepare("SELECT c FROM " + table + " WHERE p = ?");
    for (Row row : c.session.execute(partition.bind(3).setPageSize(PAGE))) {
      equal(row.getInt(0), next, "order in a partition");
      next += 7;
    }
    expect(next > ROWS, "rows of the partition end at " + next);
  }

  private void pagingResumes() {
    Set<Integer> seen = new HashSet<>();
    int rows = 0;
    int pages = 0;
    ByteBuffer state = null;
    do {
      CqlSession session = pages < 3 ? c.builder().build() : c.session;
      ResultSet page =
          session.execute(
              SimpleStatement.newInstance("SELECT c FROM " + c.table("paged"))
                  .setPageSize(PAGE)
                  .setPagingState(state));
      state = page.getExecutionInfo().getPagingState();
      int left = page.getAvailableWithoutFetching();
      expect(left <= PAGE, "page of " + left + " rows");
      for (; left > 0; left--, rows++) {
        seen.add(page.one().getInt(0));
      }
      pages++;
      if (session != c.session) {
        session.close();
      }
    } while (state != null);
    equal(List.of(rows, seen.size()), List.of(ROWS, ROWS), "rows, distinct rows");
  }

  private void fiveHundred() throws Exception {
    PreparedStatement select = c.session.prepare("SELECT v FROM " + c.table("paged") + " WHERE p = ? AND c = ?");
    List<CompletionStage<AsyncResultSet>> pending = new ArrayList<>();
    for (int n = 0; n < 500; n++) {
      pending.add(c.session.executeAsync(select.bind(n % 7, n)));
    }
    for (int n = 0; n < 500; n++) {
      equal(pending.get(n).toCompletableFuture().get().one().getString(0), "row " + n, "value");
    }
  }

  private void largeValues() {
    String table = c.table("large");
    c.run("CREATE TABLE " + table + " (k int PRIMARY KEY, v blob)");
    PreparedStatement insert = c.session.prepare("INSERT INTO " + table + " (k, v) VALUES (?, ?)");
    PreparedStatement select = c.session.prepare("SELECT v FROM " + table + " WHERE k = ?");
    for (int size : new int[] {131_000, 131_071, 131_072, 300_000, 1 << 20}) {
      byte[] value = new byte[size];
      new Random(size).nextBytes(value);
      c.session.execute(insert.bind(size, ByteBuffer.wrap(value)));
      ByteBuffer found = c.session.execute(select.bind(size)).one().getByteBuffer(0);
      expect(ByteBuffer.wrap(value).equals(found), size + " bytes came back otherwise");
    }
  }

  private void subset(String protocol, String compression) throws Exception {
    DriverConfigLoader loader =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_VERSION, protocol)
            .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression)
            .build();
    try (CqlSession session = c.open(loader)) {
      equal(session.getContext().getProtocolVersion().name(), protocol, "protocol version");
      String table = ("short_" + protocol + "_" + compression).toLowerCase();
      session.execute(
          SimpleStatement.newInstance("CREATE TABLE " + table + " (k int PRIMARY KEY, v text)")
              .setTimeout(Context.DDL_TIMEOUT));
      PreparedStatement insert = session.prepare("INSERT INTO " + table + " (k, v) VALUES (?, ?)");
      for (int n = 0; n < 40; n++) {
        session.execute(insert.bind(n, "v".repeat(n)));
      }
      SimpleStatement all = SimpleStatement.newInstance("SELECT k FROM " + table).setPageSize(10);
      equal(session.execute(all).all().size(), 40, "rows");
      session.execute(insert.bind(99, "z".repeat(200_000)));
      String found = session.execute("SELECT v FROM " + table + " WHERE k = 99").one().getString(0);
      equal(found.length(), 200_000, "length");
      raises(InvalidQueryException.class, () -> session.execute("SELECT * FROM nowhere"));
    }
  }

  private void heartbeats() throws Exception {
    DriverConfigLoader loader =
        DriverConfigLoader.programmaticBuilder()
            .withDuration(DefaultDriverOption.HEARTBEAT_INTERVAL, Duration.ofMillis(500))
            .build();
    try (CqlSession session = c.open(loader)) {
      Thread.sleep(2500);
      equal(session.execute("SELECT key FROM system.local").one().getString(0), "local", "key");
    }
  }
}
