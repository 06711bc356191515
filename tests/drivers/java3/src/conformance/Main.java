package conformance;

import static conformance.Harness.equal;
import static conformance.Harness.eventually;
import static conformance.Harness.expect;
import static conformance.Harness.raises;

import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Host;
import com.datastax.driver.core.KeyspaceMetadata;
import com.datastax.driver.core.PagingState;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.ProtocolOptions;
import com.datastax.driver.core.ProtocolVersion;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.ResultSetFuture;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.Statement;
import com.datastax.driver.core.exceptions.AlreadyExistsException;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.NoHostAvailableException;
import com.datastax.driver.core.exceptions.SyntaxError;
import com.datastax.driver.core.exceptions.UnavailableException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/** The common script, shortened, with version 3 of the Java driver, which speaks versions 3 and 4. */
public final class Main {
  private static final int ROWS = 1100;
  private static final int PAGE = 97;

  private final Map<String, String> options;
  private final String keyspace;
  private Cluster cluster;
  private Session session;

  private Main(Map<String, String> options, String keyspace) {
    this.options = options;
    this.keyspace = keyspace;
  }

  public static void main(String[] args) {
    Map<String, String> options = new HashMap<>();
    for (int n = 0; n + 1 < args.length; n += 2) {
      options.put(args[n], args[n + 1]);
    }
    String name = options.getOrDefault("--name", "java3");
    Main main = new Main(options, "conf_" + name.replace('-', '_'));
    Harness first = new Harness(name);
    first.add("connect", main::connect);
    if (first.run() > 0) {
      System.exit(1);
    }
    Harness checks = new Harness(name);
    checks.add("metadata", main::metadata);
    checks.add("schema_event", main::schemaEvent);
    checks.add("statements", main::statements);
    checks.add("prepared_survives_alter", main::alter);
    checks.add("batches", main::batches);
    checks.add("lightweight_transactions", main::lightweight);
    checks.add("tracing", main::tracing);
    checks.add("warnings", main::warnings);
    checks.add("keyspaces_of_sessions", main::keyspaces);
    checks.add("errors", main::errors);
    checks.add("paging", main::paging);
    checks.add("five_hundred_at_once", main::fiveHundred);
    checks.add("large_values", main::largeValues);
    for (ProtocolVersion version : new ProtocolVersion[] {ProtocolVersion.V3, ProtocolVersion.V4}) {
      for (ProtocolOptions.Compression compression : ProtocolOptions.Compression.values()) {
        checks.add(
            "protocol_" + version.name().toLowerCase() + "_" + compression.name().toLowerCase(),
            () -> main.subset(version, compression));
      }
    }
    int failed = checks.run();
    main.session.execute("DROP KEYSPACE " + main.keyspace);
    main.cluster.close();
    System.exit(failed > 0 ? 1 : 0);
  }

  private Cluster.Builder builder() {
    return Cluster.builder()
        .addContactPoint(options.getOrDefault("--host", "127.0.0.1"))
        .withPort(Integer.parseInt(options.getOrDefault("--port", "9042")))
        .withoutJMXReporting();
  }

  private String table(String name) {
    return keyspace + "." + name;
  }

  private void connect() {
    cluster = builder().build();
    session = cluster.connect();
    session.execute("DROP KEYSPACE IF EXISTS " + keyspace);
    session.execute(
        "CREATE KEYSPACE " + keyspace
            + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
  }

  private void metadata() {
    Set<Host> hosts = cluster.getMetadata().getAllHosts();
    if (options.containsKey("--expect-nodes")) {
      equal(hosts.size(), Integer.parseInt(options.get("--expect-nodes")), "hosts");
    }
    for (Host host : hosts) {
      expect(host.isUp() && host.getRack() != null, host + " is down or has no rack");
      expect(!host.getTokens().isEmpty(), host + " has no tokens");
      equal(host.getDatacenter(), "datacenter1", "data centre");
    }
    expect(cluster.getMetadata().getPartitioner().endsWith("Murmur3Partitioner"), "partitioner");
    expect(!cluster.getMetadata().getTokenRanges().isEmpty(), "no token ranges");
    Set<Host> owners = new HashSet<>();
    for (int key = 0; key < 200; key++) {
      Set<Host> found = cluster.getMetadata().getReplicas(keyspace, ByteBuffer.allocate(4).putInt(0, key));
      equal(found.size(), 1, "replicas of key " + key);
      owners.addAll(found);
    }
    equal(owners, hosts, "owners");
  }

  private void schemaEvent() throws Exception {
    String direct = options.get("--direct");
    Cluster.Builder elsewhere = builder();
    if (direct != null) {
      int colon = direct.lastIndexOf(':');
      elsewhere =
          Cluster.builder()
              .addContactPoint(direct.substring(0, colon))
              .withPort(Integer.parseInt(direct.substring(colon + 1)))
              .withoutJMXReporting();
    }
    KeyspaceMetadata known = cluster.getMetadata().getKeyspace(keyspace);
    try (Cluster other = elsewhere.build()) {
      Session changer = other.connect();
      changer.execute("CREATE TABLE " + table("by_another") + " (k int PRIMARY KEY)");
      eventually("event for CREATE TABLE", () -> known.getTable("by_another") != null);
      changer.execute("ALTER TABLE " + table("by_another") + " ADD w int");
      eventually("event for ALTER TABLE", () -> known.getTable("by_another").getColumn("w") != null);
      changer.execute("DROP TABLE " + table("by_another"));
      eventually("event for DROP TABLE", () -> known.getTable("by_another") == null);
    }
  }

  private String text(int k) {
    return session.execute("SELECT v FROM " + table("plain") + " WHERE k = ?", k).one().getString(0);
  }

  private void statements() {
    session.execute("CREATE TABLE " + table("plain") + " (k int PRIMARY KEY, v text, w int)");
    String insert = "INSERT INTO " + table("plain") + " (k, v, w) VALUES (?, ?, ?)";
    session.execute(insert, 1, "it's", 1);
    session.execute("INSERT INTO " + table("plain") + " (k, v) VALUES (:k, :v)", Map.of("k", 2, "v", "named"));
    equal(text(1) + text(2), "it'snamed", "values");
    PreparedStatement prepared = session.prepare(insert);
    session.execute(prepared.bind(3, "three", 3));
    session.execute(prepared.bind().setInt(0, 3).setString(1, "again"));
    Row row = session.execute("SELECT v, w FROM " + table("plain") + " WHERE k = 3").one();
    equal(row.getString(0) + row.getInt(1), "again3", "unset keeps the value");
    session.execute(prepared.bind(3, null, 4));
    row = session.execute("SELECT v, w FROM " + table("plain") + " WHERE k = 3").one();
    expect(row.isNull(0) && row.getInt(1) == 4, "null deletes the value");
  }

  private void alter() {
    session.execute("CREATE TABLE " + table("altered") + " (k int PRIMARY KEY, b int)");
    session.execute("INSERT INTO " + table("altered") + " (k, b) VALUES (1, 2)");
    PreparedStatement select = session.prepare("SELECT k, b FROM " + table("altered") + " WHERE k = ?");
    equal(session.execute(select.bind(1)).one().getInt("b"), 2, "before ALTER");
    session.execute("ALTER TABLE " + table("altered") + " ADD a text");
    equal(session.execute(select.bind(1)).one().getInt("b"), 2, "after ALTER");
  }

  private void batches() {
    PreparedStatement insert = session.prepare("INSERT INTO " + table("plain") + " (k, v) VALUES (?, ?)");
    BatchStatement batch = new BatchStatement(BatchStatement.Type.LOGGED);
    batch.add(insert.bind(100, "prepared"));
    batch.add(new SimpleStatement("INSERT INTO " + table("plain") + " (k, v) VALUES (?, ?)", 101, "simple"));
    session.execute(batch);
    equal(text(100) + text(101), "preparedsimple", "batch");
  }

  private void lightweight() {
    String insert = "INSERT INTO " + table("plain") + " (k, v) VALUES (400, ?) IF NOT EXISTS";
    expect(session.execute(insert, "one").wasApplied(), "the first insert was not applied");
    ResultSet second = session.execute(insert, "two");
    expect(!second.wasApplied(), "the second insert was applied");
    equal(second.one().getString("v"), "one", "the row that stood in the way");
  }

  private void tracing() {
    Statement query = new SimpleStatement("SELECT * FROM " + table("plain") + " WHERE k = 1").enableTracing();
    expect(!session.execute(query).getExecutionInfo().getQueryTrace().getEvents().isEmpty(), "no events");
  }

  private void warnings() {
    ResultSet counted = session.execute("SELECT count(*) FROM " + table("plain"));
    String found = counted.getExecutionInfo().getWarnings().toString();
    expect(found.contains("Aggregation query used without partition key"), found);
  }

  private void keyspaces() throws Exception {
    raises(InvalidQueryException.class, () -> session.execute("SELECT v FROM plain WHERE k = 1"));
    try (Session own = cluster.connect(keyspace);
        Session second = cluster.connect("system")) {
      for (int n = 0; n < 10; n++) {
        equal(own.execute("SELECT v FROM plain WHERE k = 1").one().getString(0), "it's", "own");
        equal(second.execute("SELECT key FROM local").one().getString(0), "local", "system");
      }
    }
  }

  private void errors() throws Exception {
    raises(SyntaxError.class, () -> session.execute("SELEC 1"));
    raises(InvalidQueryException.class, () -> session.execute("SELECT nothing FROM " + table("plain")));
    AlreadyExistsException exists =
        raises(
            AlreadyExistsException.class,
            () -> session.execute("CREATE TABLE " + table("plain") + " (k int PRIMARY KEY)"));
    equal(exists.getTable(), "plain", "table that exists");
    Statement query =
        new SimpleStatement("SELECT * FROM " + table("plain") + " WHERE k = 1")
            .setConsistencyLevel(ConsistencyLevel.THREE);
    UnavailableException unavailable = null;
    try {
      session.execute(query);
    } catch (UnavailableException error) {
      unavailable = error;
    } catch (NoHostAvailableException error) { // a single host: the retry found no other
      unavailable = (UnavailableException) error.getErrors().values().iterator().next();
    }
    expect(unavailable != null, "no error at THREE");
    equal(List.of(unavailable.getRequiredReplicas(), unavailable.getAliveReplicas()), List.of(3, 1), "replicas");
  }

  private void paging() {
    session.execute("CREATE TABLE " + table("paged") + " (p int, c int, v text, PRIMARY KEY (p, c))");
    PreparedStatement insert = session.prepare("INSERT INTO " + table("paged") + " (p, c, v) VALUES (?, ?, ?)");
    List<ResultSetFuture> pending = new ArrayList<>();
    for (int n = 0; n < ROWS; n++) {
      pending.add(session.executeAsync(insert.bind(n % 7, n, "row " + n)));
      if (n % 100 == 99) {
        pending.forEach(ResultSetFuture::getUninterruptibly);
      }
    }
    pending.forEach(ResultSetFuture::getUninterruptibly);
    Set<Integer> seen = new HashSet<>();
    String state = null;
    int rows = 0;
    do {
      Statement query = new SimpleStatement("SELECT c FROM " + table("paged")).setFetchSize(PAGE);
      if (state != null) {
        query.setPagingState(PagingState.fromString(state));
      }
      try (Session fresh = cluster.newSession()) {
        ResultSet page = fresh.execute(query);
        PagingState next = page.getExecutionInfo().getPagingState();
        state = next == null ? null : next.toString();
        for (int left = page.getAvailableWithoutFetching(); left > 0; left--, rows++) {
          seen.add(page.one().getInt(0));
        }
      }
    } while (state != null);
    equal(List.of(rows, seen.size()), List.of(ROWS, ROWS), "rows, distinct rows");
  }

  private void fiveHundred() {
    PreparedStatement select = session.prepare("SELECT v FROM " + table("paged") + " WHERE p = ? AND c = ?");
    List<ResultSetFuture> pending = new ArrayList<>();
    for (int n = 0; n < 500; n++) {
      pending.add(session.executeAsync(select.bind(n % 7, n)));
    }
    for (int n = 0; n < 500; n++) {
      equal(pending.get(n).getUninterruptibly().one().getString(0), "row " + n, "value");
    }
  }

  private void largeValues() {
    session.execute("CREATE TABLE " + table("large") + " (k int PRIMARY KEY, v blob)");
    for (int size : new int[] {131_071, 300_000, 1 << 20}) {
      byte[] value = new byte[size];
      new Random(size).nextBytes(value);
      session.execute("INSERT INTO " + table("large") + " (k, v) VALUES (?, ?)", size, ByteBuffer.wrap(value));
      Row row = session.execute("SELECT v FROM " + table("large") + " WHERE k = ?", size).one();
      expect(ByteBuffer.wrap(value).equals(row.getBytes(0)), size + " bytes came back otherwise");
    }
  }

  private void subset(ProtocolVersion version, ProtocolOptions.Compression compression) {
    try (Cluster own = builder().withProtocolVersion(version).withCompression(compression).build()) {
      Session short1 = own.connect(keyspace);
      equal(own.getConfiguration().getProtocolOptions().getProtocolVersion(), version, "version");
      PreparedStatement insert = short1.prepare("INSERT INTO plain (k, v) VALUES (?, ?)");
      short1.execute(insert.bind(900, "z".repeat(200_000)));
      equal(short1.execute("SELECT v FROM plain WHERE k = 900").one().getString(0).length(), 200_000, "length");
      Statement all = new SimpleStatement("SELECT c FROM paged").setFetchSize(500);
      equal(short1.execute(all).all().size(), ROWS, "rows");
    }
  }
}
