package conformance;

import static conformance.Harness.equal;
import static conformance.Harness.eventually;
import static conformance.Harness.expect;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.NodeState;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import com.datastax.oss.driver.api.core.metadata.schema.KeyspaceMetadata;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;

/** What the driver learns about the cluster before and beside the user's queries. */
final class MetadataChecks {
  private final Context c;

  MetadataChecks(Context c) {
    this.c = c;
  }

  void addTo(Harness checks) {
    checks.add("hosts", this::hosts);
    checks.add("token_map_and_replicas", this::tokenMap);
    checks.add("schema_agreement", this::schemaAgreement);
    checks.add("schema_event", this::schemaEvent);
    checks.add("schema_metadata", this::schemaMetadata);
    checks.add("system_tables", this::systemTables);
  }

  private Collection<Node> nodes() {
    return c.session.getMetadata().getNodes().values();
  }

  private void hosts() throws Exception {
    if (c.expectNodes > 0) {
      equal(nodes().size(), c.expectNodes, "nodes");
    }
    for (Node node : nodes()) {
      expect(node.getCassandraVersion() != null, node + " has no version");
      expect(node.getHostId() != null && node.getRack() != null, node + ": thin row");
      expect(node.getSchemaVersion() != null, node + " has no schema version");
      equal(node.getDatacenter(), "datacenter1", "data centre");
      eventually(node + " is up with connections", () -> node.getOpenConnections() > 0 && node.getState() == NodeState.UP);
    }
  }

  private void tokenMap() {
    TokenMap map = c.session.getMetadata().getTokenMap().orElseThrow();
    expect(map.getPartitionerName().endsWith("Murmur3Partitioner"), map.getPartitionerName());
    expect(!map.getTokenRanges().isEmpty(), "no token ranges");
    Set<Node> owners = new HashSet<>();
    for (int key = 0; key < 200; key++) {
      ByteBuffer bytes = ByteBuffer.allocate(4).putInt(0, key);
      Set<Node> replicas = map.getReplicas(c.keyspace, bytes);
      equal(replicas.size(), 1, "replicas of key " + key);
      owners.addAll(replicas);
    }
    equal(owners.size(), nodes().size(), "nodes that own one of 200 keys");
  }

  private Optional<TableMetadata> tableOf(String name) {
    return c.session.getMetadata().getKeyspace(c.keyspace).flatMap(keyspace -> keyspace.getTable(name));
  }

  private void schemaAgreement() throws Exception {
    boolean agreed =
        c.run("CREATE TABLE " + c.table("agreed") + " (k int PRIMARY KEY, v text)")
            .getExecutionInfo()
            .isSchemaInAgreement();
    expect(agreed, "no schema agreement after CREATE TABLE");
    expect(c.session.checkSchemaAgreement(), "no schema agreement when asked for");
    eventually("the table in the metadata", () -> tableOf("agreed").isPresent());
  }

  private void schemaEvent() throws Exception {
    String name = "by_another";
    try (CqlSession other = c.openDirect()) {
      change(other, "CREATE TABLE " + c.table(name) + " (k int PRIMARY KEY, v text)");
      eventually("event for CREATE TABLE", () -> tableOf(name).isPresent());
      change(other, "ALTER TABLE " + c.table(name) + " ADD w int");
      eventually("event for ALTER TABLE", () -> tableOf(name).flatMap(table -> table.getColumn("w")).isPresent());
      change(other, "DROP TABLE " + c.table(name));
      eventually("event for DROP TABLE", () -> tableOf(name).isEmpty());
    }
  }

  private static void change(CqlSession session, String text) {
    session.execute(SimpleStatement.newInstance(text).setTimeout(Context.DDL_TIMEOUT));
  }

  private void schemaMetadata() throws Exception {
    c.run("CREATE TYPE " + c.table("pair") + " (a int, b text)");
    c.run(
        "CREATE TABLE " + c.table("described") + " (p1 int, p2 text, c1 int, c2 timeuuid, s text static, "
            + "v frozen<pair>, w list<int>, PRIMARY KEY ((p1, p2), c1, c2)) "
            + "WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC)");
    c.run("CREATE INDEX described_w ON " + c.table("described") + " (w)");
    c.session.refreshSchema();
    KeyspaceMetadata keyspace = c.session.getMetadata().getKeyspace(c.keyspace).orElseThrow();
    TableMetadata table = keyspace.getTable("described").orElseThrow();
    equal(table.getPartitionKey().size(), 2, "columns of the partition key");
    equal(table.getClusteringColumns().values().toString(), "[DESC, ASC]", "clustering order");
    expect(table.getColumn("s").orElseThrow().isStatic(), "s is not static");
    equal(table.getIndexes().size(), 1, "indexes");
    expect(keyspace.getUserDefinedType("pair").isPresent(), "no user type");
    expect(keyspace.describeWithChildren(true).contains("CREATE TYPE"), "no type in the description");
  }

  private void systemTables() {
    Row local = c.one("SELECT * FROM system.local");
    equal(local.getString("key"), "local", "key");
    expect(!local.getSet("tokens", String.class).isEmpty(), "no tokens");
    for (String peers : new String[] {"system.peers", "system.peers_v2"}) {
      equal(c.run("SELECT * FROM " + peers).all().size(), nodes().size() - 1, peers);
    }
  }
}
