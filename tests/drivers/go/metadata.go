package main

import (
	"strings"
	"sync"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

var metadataChecks = []check{
	{"hosts", hosts},
	{"token_aware_session", tokenAwareSession},
	{"schema_agreement", schemaAgreement},
	{"schema_event", schemaEvent},
	{"schema_metadata", schemaMetadata},
	{"system_tables", systemTables},
}

func hosts(c *context) {
	found := c.session.GetHosts()
	if len(found) == 0 {
		fail("no hosts")
	}
	if c.expectNodes > 0 {
		equal(len(found), c.expectNodes, "hosts")
	}
	for _, host := range found {
		if !strings.HasSuffix(host.Partitioner(), "Murmur3Partitioner") {
			fail("%v: partitioner %q", host, host.Partitioner())
		}
		if len(host.Tokens()) == 0 || host.HostID() == "" || host.Rack() == "" || !host.IsUp() {
			fail("tokens, host id, rack or state missing: %v", host)
		}
		equal(host.DataCenter(), "datacenter1", "data centre")
	}
}

// tokenAwareSession routes by the driver's own ring; the host that answered must be the owner.
func tokenAwareSession(c *context) {
	c.exec("CREATE TABLE " + c.table("owned") + " (k int PRIMARY KEY, v int)")
	session := c.open(func(config *gocql.ClusterConfig) {
		config.Keyspace = c.keyspace
		config.PoolConfig.HostSelectionPolicy =
			gocql.TokenAwareHostPolicy(gocql.DCAwareRoundRobinPolicy("datacenter1"))
	})
	defer session.Close()
	seen := map[string]bool{}
	for key := 0; key < 100; key++ {
		must(session.Query("INSERT INTO owned (k, v) VALUES (?, ?)", key, key).Exec())
		iter := session.Query("SELECT v FROM owned WHERE k = ?", key).Iter()
		var value int
		if !iter.Scan(&value) || value != key {
			fail("key %d: %d, %v", key, value, iter.Close())
		}
		seen[iter.Host().HostID()] = true
		must(iter.Close())
	}
	equal(len(seen), len(session.GetHosts()), "hosts that own one of 100 keys")
}

func schemaAgreement(c *context) {
	c.exec("CREATE TABLE " + c.table("agreed") + " (k int PRIMARY KEY, v text)")
	ctx, cancel := withTimeout()
	defer cancel()
	must(c.session.AwaitSchemaAgreement(ctx))
	eventually("the table in the metadata", func() bool { // refreshed by the event, a little later
		keyspace, err := c.session.KeyspaceMetadata(c.keyspace)
		return err == nil && keyspace.Tables["agreed"] != nil
	})
}

type tableListener struct {
	mutex sync.Mutex
	seen  []string
}

func (l *tableListener) note(what string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.seen = append(l.seen, what)
}

func (l *tableListener) has(what string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, one := range l.seen {
		if one == what {
			return true
		}
	}
	return false
}

func (l *tableListener) OnTableCreated(e gocql.OnTableCreatedEvent) {
	l.note("created " + e.Table.Name)
}
func (l *tableListener) OnTableUpdated(e gocql.OnTableUpdatedEvent) { l.note("updated " + e.New.Name) }
func (l *tableListener) OnTableDropped(e gocql.OnTableDroppedEvent) {
	l.note("dropped " + e.Table.Name)
}

func schemaEvent(c *context) {
	listener := &tableListener{}
	session := c.open(func(config *gocql.ClusterConfig) {
		config.Metadata.SchemaListener.TableChangeListener = listener
		config.Metadata.CacheMode = gocql.Full
	})
	defer session.Close()
	other := c.openDirect()
	defer other.Close()
	must(other.Query("CREATE TABLE " + c.table("by_another") + " (k int PRIMARY KEY, v text)").Exec())
	eventually("created", func() bool { return listener.has("created by_another") })
	must(other.Query("ALTER TABLE " + c.table("by_another") + " ADD w int").Exec())
	eventually("updated", func() bool { return listener.has("updated by_another") })
	must(other.Query("DROP TABLE " + c.table("by_another")).Exec())
	eventually("dropped", func() bool { return listener.has("dropped by_another") })
}

func schemaMetadata(c *context) {
	c.exec("CREATE TYPE " + c.table("pair") + " (a int, b text)")
	c.exec("CREATE TABLE " + c.table("described") + " (p1 int, p2 text, c1 int, c2 timeuuid, s text static, " +
		"v frozen<pair>, PRIMARY KEY ((p1, p2), c1, c2)) WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC)")
	eventually("the table in the metadata", func() bool {
		keyspace, err := c.session.KeyspaceMetadata(c.keyspace)
		return err == nil && keyspace.Tables["described"] != nil
	})
	keyspace, err := c.session.KeyspaceMetadata(c.keyspace)
	must(err)
	table := keyspace.Tables["described"]
	equal([]string{table.PartitionKey[0].Name, table.PartitionKey[1].Name}, []string{"p1", "p2"}, "partition key")
	equal([]string{table.ClusteringColumns[0].Name, table.ClusteringColumns[1].Name}, []string{"c1", "c2"}, "clustering")
	equal(table.Columns["s"].Kind, gocql.ColumnStatic, "kind of s")
	equal(table.ClusteringColumns[0].Order, gocql.DESC, "order of c1")
	equal(keyspace.UserTypes["pair"].FieldNames, []string{"a", "b"}, "fields of the type")
	if !strings.Contains(keyspace.StrategyClass, "SimpleStrategy") {
		fail("strategy %q", keyspace.StrategyClass)
	}
}

func systemTables(c *context) {
	var key, version string
	var tokens []string
	must(c.session.Query("SELECT key, release_version, tokens FROM system.local").Scan(&key, &version, &tokens))
	equal(key, "local", "key")
	if version == "" || len(tokens) == 0 {
		fail("version %q, %d tokens", version, len(tokens))
	}
	for _, table := range []string{"system.peers", "system.peers_v2"} {
		equal(c.session.Query("SELECT * FROM "+table).Iter().NumRows(), len(c.session.GetHosts())-1, table)
	}
}
