package conformance;

import static conformance.Harness.equal;
import static conformance.Harness.expect;

import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/** Every type goes to the cluster and comes back the same. */
final class ValueChecks {
  private final Context c;

  ValueChecks(Context c) {
    this.c = c;
  }

  void addTo(Harness checks) {
    checks.add("simple_types", this::simpleTypes);
    checks.add("collections_and_tuples", this::collections);
    checks.add("user_types", this::userTypes);
    checks.add("vectors", this::vectors);
    checks.add("counters", this::counters);
    checks.add("static_columns", this::staticColumns);
  }

  private static Map<String, List<Object>> samples() throws Exception {
    byte[] every = new byte[256];
    for (int n = 0; n < every.length; n++) {
      every[n] = (byte) n;
    }
    Map<String, List<Object>> values = new LinkedHashMap<>();
    values.put("tinyint", List.of((byte) -128, (byte) 127));
    values.put("smallint", List.of(Short.MIN_VALUE, Short.MAX_VALUE));
    values.put("int", List.of(Integer.MIN_VALUE, Integer.MAX_VALUE));
    values.put("bigint", List.of(Long.MIN_VALUE, Long.MAX_VALUE));
    values.put("varint", List.of(BigInteger.TWO.pow(200).negate(), BigInteger.valueOf(255)));
    values.put("decimal", List.of(new BigDecimal("-1234567890.0987654321"), new BigDecimal("1E+30")));
    values.put("float", List.of(1.5f, Float.POSITIVE_INFINITY));
    values.put("double", List.of(0.1, -1e308));
    values.put("boolean", List.of(true, false));
    values.put("text", List.of("", "naïve 漢字 🜚", "x".repeat(70_000)));
    values.put("ascii", List.of("", "plain"));
    values.put("blob", List.of(ByteBuffer.allocate(0), ByteBuffer.wrap(every)));
    values.put("uuid", List.of(UUID.fromString("f81d4fae-7dec-41d0-a765-00a0c91e6bf6")));
    values.put("timeuuid", List.of(UUID.fromString("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")));
    values.put("timestamp", List.of(Instant.parse("2024-02-29T12:34:56.789Z"), Instant.ofEpochMilli(-1)));
    values.put("date", List.of(LocalDate.of(2024, 2, 29), LocalDate.of(-5, 1, 1)));
    values.put("time", List.of(LocalTime.MIN, LocalTime.MAX));
    values.put("duration", List.of(CqlDuration.newInstance(14, 3, 123456789), CqlDuration.newInstance(-1, -2, -3)));
    values.put("inet", List.of(InetAddress.getByName("127.0.0.1"), InetAddress.getByName("2001:db8::1")));
    return values;
  }

  private void simpleTypes() throws Exception {
    Map<String, List<Object>> samples = samples();
    StringBuilder columns = new StringBuilder();
    samples.keySet().forEach(name -> columns.append(", c_").append(name).append(' ').append(name));
    String table = c.table("simple");
    c.run("CREATE TABLE " + table + " (k int PRIMARY KEY" + columns + ")");
    for (Map.Entry<String, List<Object>> entry : samples.entrySet()) {
      String column = "c_" + entry.getKey();
      PreparedStatement insert = c.session.prepare("INSERT INTO " + table + " (k, " + column + ") VALUES (?, ?)");
      PreparedStatement select = c.session.prepare("SELECT " + column + " FROM " + table + " WHERE k = ?");
      for (Object value : entry.getValue()) {
        c.session.execute(insert.bind(1, value));
        equal(c.session.execute(select.bind(1)).one().getObject(0), value, entry.getKey());
      }
      c.session.execute(insert.bind(1, null));
      expect(c.session.execute(select.bind(1)).one().isNull(0), entry.getKey() + ": null came back as a value");
    }
  }

  private void collections() {
    String table = c.table("collected");
    c.run(
        "CREATE TABLE " + table + " (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, "
            + "n frozen<list<frozen<map<int, text>>>>, t tuple<int, text, frozen<list<int>>>)");
    List<Map<Integer, String>> nested = List.of(Map.of(1, "a"), Map.of(2, "b", 3, ""));
    TupleValue tuple =
        DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT, DataTypes.frozenListOf(DataTypes.INT))
            .newValue(7, "seven", List.of(7, 7));
    PreparedStatement insert =
        c.session.prepare("INSERT INTO " + table + " (k, l, s, m, n, t) VALUES (?, ?, ?, ?, ?, ?)");
    Map<String, Long> map = Map.of("k", 1L << 40, "", -1L);
    c.session.execute(insert.bind(1, List.of(3, 1, 2, 1), Set.of("a", "b"), map, nested, tuple));
    Row row = c.one("SELECT l, s, m, n, t FROM " + table + " WHERE k = 1");
    equal(row.getObject(0), List.of(3, 1, 2, 1), "list");
    equal(row.getObject(1), Set.of("a", "b"), "set");
    equal(row.getObject(2), map, "map");
    equal(row.getObject(3), nested, "nested");
    TupleValue found = row.getTupleValue(4);
    equal(found.getInt(0), 7, "tuple");
    equal(found.getString(1), "seven", "tuple");
    equal(found.getList(2, Integer.class), List.of(7, 7), "tuple");
  }

  private void userTypes() {
    c.run("CREATE TYPE " + c.table("street") + " (name text, number int)");
    c.run("CREATE TYPE " + c.table("address") + " (street frozen<street>, tags set<text>, zip text)");
    String table = c.table("people");
    c.run("CREATE TABLE " + table + " (k int PRIMARY KEY, home frozen<address>, others list<frozen<address>>)");
    PreparedStatement insert = c.session.prepare("INSERT INTO " + table + " (k, home, others) VALUES (?, ?, ?)");
    UserDefinedType type = (UserDefinedType) insert.getVariableDefinitions().get("home").getType();
    UserDefinedType streetType = (UserDefinedType) type.getFieldTypes().get(0);
    UdtValue home = type.newValue(streetType.newValue("Main St", 12), Set.of("a", "b"), null);
    c.session.execute(insert.bind(1, home, List.of(home, home)));
    Row row = c.one("SELECT home, others FROM " + table + " WHERE k = 1");
    equal(row.getUdtValue(0).getFormattedContents(), home.getFormattedContents(), "user type");
    equal(row.getList(1, UdtValue.class).size(), 2, "list of user types");
  }

  private void vectors() {
    String table = c.table("vectors");
    c.run("CREATE TABLE " + table + " (k int PRIMARY KEY, v vector<float, 3>)");
    CqlVector<Float> vector = CqlVector.newInstance(0.5f, -1.25f, 3f);
    c.session.execute(c.session.prepare("INSERT INTO " + table + " (k, v) VALUES (?, ?)").bind(1, vector));
    equal(c.one("SELECT v FROM " + table + " WHERE k = 1").getVector(0, Float.class), vector, "vector");
  }

  private void counters() {
    String table = c.table("counted");
    c.run("CREATE TABLE " + table + " (k int PRIMARY KEY, n counter)");
    PreparedStatement update = c.session.prepare("UPDATE " + table + " SET n = n + ? WHERE k = ?");
    for (long step : new long[] {5, -2, 10}) {
      c.session.execute(update.bind(step, 1));
    }
    equal(c.one("SELECT n FROM " + table + " WHERE k = 1").getLong(0), 13L, "counter");
  }

  private void staticColumns() {
    String table = c.table("static");
    c.run("CREATE TABLE " + table + " (p int, c int, s text static, v int, PRIMARY KEY (p, c))");
    c.run("INSERT INTO " + table + " (p, s) VALUES (1, 'shared')");
    Row row = c.one("SELECT * FROM " + table + " WHERE p = 1");
    equal(row.getString("s"), "shared", "static column");
    expect(row.isNull("c") && row.isNull("v"), "columns of no row");
  }
}
