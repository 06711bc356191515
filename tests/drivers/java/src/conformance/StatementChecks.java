package conformance;

import static conformance.Harness.equal;
import static conformance.Harness.expect;
import static conformance.Harness.raises;

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.ExecutionInfo;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.QueryTrace;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.servererrors.UnavailableException;
import java.nio.ByteBuffer;
import java.util.Map;

/** Kinds of statements, and the answers and errors the driver makes of them. */
final class StatementChecks {
  private final Context c;
  private final String table;

  StatementChecks(Context c) {
    this.c = c;
    this.table = c.table("plain");
  }

  void addTo(Harness checks) {
    checks.add("simple_statements", this::simple);
    checks.add("prepared_statements", this::prepared);
    checks.add("prepared_survives_alter", this::alter);
    checks.add("batches", this::batches);
    checks.add("lightweight_transactions", this::lightweight);
    checks.add("tracing", this::tracing);
    checks.add("warnings", this::warnings);
    checks.add("custom_payload", this::payload);
    checks.add("keyspace_per_query", this::perQuery);
    checks.add("use_keyspace", this::use);
    checks.add("errors", this::errors);
    checks.add("idempotence", this::idempotence);
  }

  private String text(int k) {
    return c.one("SELECT v FROM " + table + " WHERE k = " + k).getString(0);
  }

  private void simple() {
    c.run("CREATE TABLE " + table + " (k int PRIMARY KEY, v text, w int)");
    c.run("INSERT INTO " + table + " (k, v) VALUES (?, ?)", 1, "it's");
    c.session.execute(
        SimpleStatement.newInstance(
            "INSERT INTO " + table + " (k, v) VALUES (:key, :val)", Map.of("key", 2, "val", "named")));
    equal(text(1), "it's", "positional");
    equal(text(2), "named", "named");
    expect(c.one("SELECT * FROM " + table + " WHERE k = -1") == null, "a row that is not there");
  }

  private void prepared() {
    PreparedStatement insert = c.session.prepare("INSERT INTO " + table + " (k, v, w) VALUES (?, ?, ?)");
    PreparedStatement select = c.session.prepare("SELECT v, w FROM " + table + " WHERE k = :key");
    c.session.execute(insert.bind(10, "ten", 10));
    c.session.execute(insert.boundStatementBuilder().setInt(0, 10).setString(1, "again").unset(2).build());
    Row row = c.session.execute(select.boundStatementBuilder().setInt("key", 10).build()).one();
    equal(row.getString(0) + row.getInt(1), "again10", "unset keeps the value");
    c.session.execute(insert.boundStatementBuilder().setInt(0, 10).setToNull(1).unset(2).build());
    row = c.session.execute(select.bind(10)).one();
    expect(row.isNull(0) && row.getInt(1) == 10, "null deletes the value");
    equal(insert.getPartitionKeyIndices().toString(), "[0]", "routing key index");
  }

  private void alter() {
    String altered = c.table("altered");
    c.run("CREATE TABLE " + altered + " (k int PRIMARY KEY, b int)");
    c.run("INSERT INTO " + altered + " (k, b) VALUES (1, 2)");
    PreparedStatement select = c.session.prepare("SELECT * FROM " + altered + " WHERE k = ?");
    equal(c.session.execute(select.bind(1)).one().getFormattedContents(), "[k:1, b:2]", "before ALTER");
    c.run("ALTER TABLE " + altered + " ADD a text");
    c.run("UPDATE " + altered + " SET a = 'new' WHERE k = 1");
    for (int n = 0; n < 3; n++) {
      equal(c.session.execute(select.bind(1)).one().getFormattedContents(), "[k:1, a:'new', b:2]", "after ALTER");
    }
  }

  private void batches() {
    PreparedStatement insert = c.session.prepare("INSERT INTO " + table + " (k, v) VALUES (?, ?)");
    for (DefaultBatchType type : new DefaultBatchType[] {DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED}) {
      int base = type == DefaultBatchType.LOGGED ? 100 : 200;
      BatchStatementBuilder batch = BatchStatement.builder(type);
      for (int n = 0; n < 5; n++) {
        batch.addStatement(insert.bind(base + n, "prepared"));
        batch.addStatement(
            SimpleStatement.newInstance("INSERT INTO " + table + " (k, v) VALUES (?, ?)", base + 10 + n, "simple"));
      }
      c.session.execute(batch.build());
      equal(text(base + 4) + text(base + 14), "preparedsimple", "batch");
    }
    c.run("CREATE TABLE " + c.table("tally") + " (k int PRIMARY KEY, n counter)");
    PreparedStatement add = c.session.prepare("UPDATE " + c.table("tally") + " SET n = n + ? WHERE k = 1");
    BatchStatementBuilder batch = BatchStatement.builder(DefaultBatchType.COUNTER);
    for (long n = 0; n < 4; n++) {
      batch.addStatement(add.bind(n));
    }
    c.session.execute(batch.build());
    equal(c.one("SELECT n FROM " + c.table("tally") + " WHERE k = 1").getLong(0), 6L, "counter batch");
  }

  private void lightweight() {
    PreparedStatement insert =
        c.session.prepare(
            SimpleStatement.newInstance("INSERT INTO " + table + " (k, v, w) VALUES (?, ?, ?) IF NOT EXISTS")
                .setSerialConsistencyLevel(DefaultConsistencyLevel.LOCAL_SERIAL));
    expect(c.session.execute(insert.bind(400, "one", 1)).wasApplied(), "the first insert was not applied");
    ResultSet second = c.session.execute(insert.bind(400, "two", 2));
    expect(!second.wasApplied(), "the second insert was applied");
    equal(second.one().getString("v"), "one", "the row that stood in the way");
    String update = "UPDATE " + table + " SET w = 5 WHERE k = 400 IF w = ?";
    expect(!c.run(update, 9).wasApplied(), "applied on a wrong condition");
    expect(c.run(update, 1).wasApplied(), "not applied on the right condition");
    BatchStatement batch =
        BatchStatement.newInstance(
            DefaultBatchType.LOGGED,
            SimpleStatement.newInstance("UPDATE " + table + " SET v = 'cas' WHERE k = 400 IF w = 5"));
    expect(c.session.execute(batch).wasApplied(), "the conditional batch was not applied");
    SimpleStatement read =
        SimpleStatement.newInstance("SELECT v FROM " + table + " WHERE k = 400")
            .setConsistencyLevel(DefaultConsistencyLevel.SERIAL);
    equal(c.session.execute(read).one().getString(0), "cas", "serial read");
  }

  private void tracing() throws Exception {
    SimpleStatement query = SimpleStatement.newInstance("SELECT * FROM " + table + " WHERE k = 1").setTracing(true);
    ExecutionInfo info = c.session.execute(query).getExecutionInfo();
    expect(info.getTracingId() != null, "no trace id");
    QueryTrace[] found = new QueryTrace[1];
    Harness.eventually("the trace is complete", () -> {
      try {
        found[0] = info.getQueryTrace();
        return true;
      } catch (IllegalStateException incomplete) { // the driver itself waits for 15 ms only
        return false;
      }
    });
    QueryTrace trace = found[0];
    equal(trace.getRequestType(), "Execute CQL3 query", "request type");
    expect(!trace.getEvents().isEmpty(), "the trace has no events");
  }

  private void warnings() {
    String found = c.run("SELECT count(*) FROM " + table).getExecutionInfo().getWarnings().toString();
    expect(found.contains("Aggregation query used without partition key"), found);
    BatchStatementBuilder batch = BatchStatement.builder(DefaultBatchType.UNLOGGED);
    for (int n = 0; n < 6; n++) {
      batch.addStatement(
          SimpleStatement.newInstance(
              "INSERT INTO " + table + " (k, v) VALUES (?, ?)", 500 + n, "w".repeat(1000)));
    }
    found = c.session.execute(batch.build()).getExecutionInfo().getWarnings().toString();
    expect(found.contains("exceeding specified threshold"), found);
  }

  private void payload() {
    SimpleStatement query =
        SimpleStatement.newInstance("SELECT v FROM " + table + " WHERE k = 1")
            .setCustomPayload(Map.of("who", ByteBuffer.wrap(new byte[] {1, 2}), "empty", ByteBuffer.allocate(0)));
    equal(c.session.execute(query).one().getString(0), "it's", "value");
  }

  private void perQuery() {
    if (c.session.getContext().getProtocolVersion().getCode() < 5) {
      return;
    }
    SimpleStatement query =
        SimpleStatement.newInstance("SELECT v FROM plain WHERE k = 1").setKeyspace(c.keyspace);
    equal(c.session.execute(query).one().getString(0), "it's", "simple");
    equal(c.session.execute(c.session.prepare(query).bind()).one().getString(0), "it's", "prepared");
    BatchStatement batch =
        BatchStatement.newInstance(
                DefaultBatchType.LOGGED, SimpleStatement.newInstance("INSERT INTO plain (k, v) VALUES (800, 'b')"))
            .setKeyspace(CqlIdentifier.fromCql(c.keyspace))
            .setNowInSeconds((int) (System.currentTimeMillis() / 1000));
    c.session.execute(batch);
    equal(text(800), "b", "batch");
  }

  private void use() throws Exception {
    String other = c.keyspace + "_two";
    c.run("DROP KEYSPACE IF EXISTS " + other);
    c.run("CREATE KEYSPACE " + other + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    c.run("CREATE TABLE " + other + ".plain (k int PRIMARY KEY, v text)");
    c.run("INSERT INTO " + other + ".plain (k, v) VALUES (1, 'of the other')");
    String query = "SELECT v FROM plain WHERE k = ?";
    try (CqlSession first = c.builder().build();
        CqlSession second = c.builder().withKeyspace(other).build()) {
      raises(InvalidQueryException.class, () -> first.execute("SELECT v FROM plain WHERE k = 1"));
      first.execute("USE " + c.keyspace);
      equal(first.getKeyspace().orElseThrow().asInternal(), c.keyspace, "keyspace of the session");
      PreparedStatement one = first.prepare(query);
      PreparedStatement two = second.prepare(query);
      for (int n = 0; n < 10; n++) {
        equal(first.execute(SimpleStatement.newInstance(query, 1)).one().getString(0), "it's", "first");
        equal(second.execute(SimpleStatement.newInstance(query, 1)).one().getString(0), "of the other", "second");
        equal(first.execute(one.bind(1)).one().getString(0), "it's", "first, prepared");
        equal(second.execute(two.bind(1)).one().getString(0), "of the other", "second, prepared");
      }
    } finally {
      c.run("DROP KEYSPACE " + other);
    }
  }

  private void errors() throws Exception {
    raises(SyntaxError.class, () -> c.run("SELEC * FROM nowhere"));
    raises(SyntaxError.class, () -> c.session.prepare("SELECT FROM"));
    InvalidQueryException invalid =
        raises(InvalidQueryException.class, () -> c.run("SELECT nothing FROM " + table));
    expect(invalid.getMessage().contains("Undefined column name nothing"), invalid.getMessage());
    AlreadyExistsException exists =
        raises(AlreadyExistsException.class, () -> c.run("CREATE TABLE " + table + " (k int PRIMARY KEY)"));
    expect(exists.getMessage().contains(c.keyspace + ".plain"), exists.getMessage());
    for (String text :
        new String[] {"SELECT * FROM " + table + " WHERE k = 1", "INSERT INTO " + table + " (k) VALUES (1)"}) {
      SimpleStatement query =
          SimpleStatement.newInstance(text).setConsistencyLevel(DefaultConsistencyLevel.THREE);
      UnavailableException unavailable = null;
      try {
        c.session.execute(query);
      } catch (UnavailableException error) {
        unavailable = error;
      } catch (AllNodesFailedException error) { // a single node: the retry found no other
        unavailable = (UnavailableException) error.getAllErrors().values().iterator().next().get(0);
      }
      expect(unavailable != null, "no error at THREE");
      equal(unavailable.getConsistencyLevel(), DefaultConsistencyLevel.THREE, "level");
      equal(unavailable.getRequired(), 3, "required");
      equal(unavailable.getAlive(), 1, "alive");
    }
    equal(text(1), "it's", "the session still works");
  }

  private void idempotence() {
    for (boolean idempotent : new boolean[] {true, false}) {
      c.session.execute(
          SimpleStatement.newInstance("UPDATE " + table + " SET v = 'i' WHERE k = 700").setIdempotent(idempotent));
    }
    equal(text(700), "i", "value");
  }
}
