package main

import (
	stdcontext "context"
	"errors"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

var statementChecks = []check{
	{"bound_statements", boundStatements},
	{"prepared_survives_alter", preparedSurvivesAlter},
	{"batches", batches},
	{"lightweight_transactions", lightweightTransactions},
	{"tracing", tracing},
	{"warnings", warnings},
	{"custom_payload", customPayload},
	{"keyspace_per_query", keyspacePerQuery},
	{"session_keyspaces", sessionKeyspaces},
	{"errors", errorClasses},
	{"idempotence", idempotence},
}

func withTimeout() (stdcontext.Context, stdcontext.CancelFunc) {
	return stdcontext.WithTimeout(stdcontext.Background(), 15*time.Second)
}

func textOf(c *context, k int) string {
	var v string
	must(c.session.Query("SELECT v FROM "+c.table("plain")+" WHERE k = ?", k).Scan(&v))
	return v
}

func boundStatements(c *context) {
	table := c.table("plain")
	c.exec("CREATE TABLE " + table + " (k int PRIMARY KEY, v text, w int)")
	c.exec("INSERT INTO "+table+" (k, v, w) VALUES (?, ?, ?)", 1, "it's", 1)
	c.exec("INSERT INTO " + table + " (k, v) VALUES (3, 'literal') -- end\n")
	equal(textOf(c, 1), "it's", "bound")
	equal(textOf(c, 3), "literal", "literal")
	c.exec("INSERT INTO "+table+" (k, v, w) VALUES (?, ?, ?)", 1, "again", gocql.UnsetValue)
	var w *int
	must(c.session.Query("SELECT w FROM " + table + " WHERE k = 1").Scan(&w))
	if w == nil || *w != 1 {
		fail("unset did not keep the value: %v", w)
	}
	c.exec("INSERT INTO "+table+" (k, v, w) VALUES (?, ?, ?)", 1, "it's", nil)
	must(c.session.Query("SELECT w FROM " + table + " WHERE k = 1").Scan(&w))
	if w != nil {
		fail("null did not delete the value: %v", *w)
	}
	var v string
	must(c.session.Query("SELECT v FROM "+table+" WHERE k = :key", gocql.NamedValue("key", 3)).Scan(&v))
	equal(v, "literal", "named")
	err := c.session.Query("SELECT v FROM "+table+" WHERE k = ?", -1).Scan(&v)
	equal(errors.Is(err, gocql.ErrNotFound), true, "ErrNotFound for no row")
}

func preparedSurvivesAlter(c *context) {
	table := c.table("altered")
	c.exec("CREATE TABLE " + table + " (k int PRIMARY KEY, b int)")
	c.exec("INSERT INTO " + table + " (k, b) VALUES (1, 2)")
	read := func() map[string]any {
		row := map[string]any{}
		must(c.session.Query("SELECT * FROM "+table+" WHERE k = ?", 1).MapScan(row))
		return row
	}
	equal(read(), map[string]any{"k": 1, "b": 2}, "before ALTER")
	c.exec("ALTER TABLE " + table + " ADD a text")
	c.exec("UPDATE " + table + " SET a = 'new' WHERE k = 1")
	for n := 0; n < 3; n++ {
		equal(read(), map[string]any{"k": 1, "a": "new", "b": 2}, "after ALTER")
	}
}

func batches(c *context) {
	table := c.table("plain")
	for base, kind := range map[int]gocql.BatchType{100: gocql.LoggedBatch, 200: gocql.UnloggedBatch} {
		batch := c.session.Batch(kind)
		for n := 0; n < 5; n++ {
			batch.Query("INSERT INTO "+table+" (k, v) VALUES (?, ?)", base+n, "prepared")
			batch.Query("INSERT INTO " + table + " (k, v) VALUES (" + itoa(base+10+n) + ", 'simple')")
		}
		must(batch.Exec())
		equal(textOf(c, base+4), "prepared", "prepared in a batch")
		equal(textOf(c, base+14), "simple", "simple in a batch")
	}
	c.exec("CREATE TABLE " + c.table("tally") + " (k int PRIMARY KEY, n counter)")
	batch := c.session.Batch(gocql.CounterBatch)
	for n := 0; n < 4; n++ {
		batch.Query("UPDATE "+c.table("tally")+" SET n = n + ? WHERE k = 1", int64(n))
	}
	must(batch.Exec())
	var sum int64
	must(c.session.Query("SELECT n FROM " + c.table("tally") + " WHERE k = 1").Scan(&sum))
	equal(sum, int64(6), "counter batch")
}

func lightweightTransactions(c *context) {
	table := c.table("plain")
	insert := func(v string) (bool, map[string]any) {
		row := map[string]any{}
		applied, err := c.session.Query("INSERT INTO "+table+" (k, v, w) VALUES (?, ?, ?) IF NOT EXISTS", 400, v, 1).
			SerialConsistency(gocql.LocalSerial).MapScanCAS(row)
		must(err)
		return applied, row
	}
	applied, _ := insert("one")
	equal(applied, true, "first insert")
	applied, row := insert("two")
	equal(applied, false, "second insert")
	equal(row["v"], "one", "the row that stood in the way")
	var w int
	applied, err := c.session.Query("UPDATE "+table+" SET w = 5 WHERE k = 400 IF w = ?", 9).
		SerialConsistency(gocql.Serial).ScanCAS(&w)
	must(err)
	equal([]any{applied, w}, []any{false, 1}, "wrong condition")
	applied, err = c.session.Query("UPDATE "+table+" SET w = 5 WHERE k = 400 IF w = ?", 1).ScanCAS(&w)
	must(err)
	equal(applied, true, "right condition")
	batch := c.session.Batch(gocql.LoggedBatch)
	batch.Query("UPDATE "+table+" SET v = ? WHERE k = 400 IF w = ?", "cas", 5)
	applied, _, err = batch.MapExecCAS(map[string]any{})
	must(err)
	equal(applied, true, "conditional batch")
	var v string
	must(c.session.Query("SELECT v FROM " + table + " WHERE k = 400").Consistency(gocql.Serial).Scan(&v))
	equal(v, "cas", "serial read")
}

type traceKeeper struct{ id []byte }

func (t *traceKeeper) Trace(id []byte) { t.id = id }

func tracing(c *context) {
	keeper := &traceKeeper{}
	must(c.session.Query("SELECT v FROM "+c.table("plain")+" WHERE k = ?", 1).Trace(keeper).Exec())
	equal(len(keeper.id), 16, "bytes of the trace id")
	eventually("the trace's session and events", func() bool {
		var duration int
		err := c.session.Query("SELECT duration FROM system_traces.sessions WHERE session_id = ?", keeper.id).
			Consistency(gocql.One).Scan(&duration) // their keyspace may have more replicas than there are nodes
		events := c.session.Query("SELECT activity FROM system_traces.events WHERE session_id = ?", keeper.id).
			Consistency(gocql.One).Iter()
		rows := events.NumRows()
		return err == nil && events.Close() == nil && rows > 0
	})
	var written strings.Builder
	must(c.session.Query("SELECT v FROM "+c.table("plain")+" WHERE k = ?", 1).
		Trace(gocql.NewTraceWriter(c.session, &written)).Exec())
	if !strings.Contains(written.String(), "Tracing session") {
		fail("trace writer wrote %q", written.String())
	}
}

func warnings(c *context) {
	iter := c.session.Query("SELECT count(*) FROM " + c.table("plain")).Iter()
	text := strings.Join(iter.Warnings(), " ")
	must(iter.Close())
	if !strings.Contains(text, "Aggregation query used without partition key") {
		fail("warnings: %q", text)
	}
}

func customPayload(c *context) {
	iter := c.session.Query("SELECT v FROM "+c.table("plain")+" WHERE k = ?", 1).
		CustomPayload(map[string][]byte{"who": []byte("a driver"), "empty": {}}).Iter()
	var v string
	if !iter.Scan(&v) {
		fail("no row: %v", iter.Close())
	}
	must(iter.Close())
	equal(v, "it's", "value")
}

func keyspacePerQuery(c *context) {
	var v string
	must(c.session.Query("SELECT v FROM plain WHERE k = ?", 1).SetKeyspace(c.keyspace).Scan(&v))
	equal(v, "it's", "value")
	batch := c.session.Batch(gocql.LoggedBatch).SetKeyspace(c.keyspace).WithNowInSeconds(int(time.Now().Unix()))
	batch.Query("INSERT INTO plain (k, v) VALUES (?, ?)", 800, "by keyspace")
	must(batch.Exec())
	equal(textOf(c, 800), "by keyspace", "batch")
	past := int(time.Now().Unix()) - 5000
	must(c.session.Query("INSERT INTO "+c.table("plain")+" (k, v) VALUES (?, ?) USING TTL 1000", 801, "gone").
		WithNowInSeconds(past).Exec())
	err := c.session.Query("SELECT v FROM "+c.table("plain")+" WHERE k = ?", 801).Scan(&v)
	equal(errors.Is(err, gocql.ErrNotFound), true, "now_in_seconds makes the row expired")
}

func sessionKeyspaces(c *context) {
	other := c.keyspace + "_two"
	c.exec("DROP KEYSPACE IF EXISTS " + other)
	c.exec("CREATE KEYSPACE " + other + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	defer func() { _ = c.session.Query("DROP KEYSPACE " + other).Exec() }()
	c.exec("CREATE TABLE " + other + ".plain (k int PRIMARY KEY, v text)")
	c.exec("INSERT INTO " + other + ".plain (k, v) VALUES (1, 'of the other')")
	first := c.open(func(config *gocql.ClusterConfig) { config.Keyspace = c.keyspace })
	defer first.Close()
	second := c.open(func(config *gocql.ClusterConfig) { config.Keyspace = other })
	defer second.Close()
	for n := 0; n < 10; n++ {
		var one, two string
		must(first.Query("SELECT v FROM plain WHERE k = ?", 1).Scan(&one))
		must(second.Query("SELECT v FROM plain WHERE k = ?", 1).Scan(&two))
		equal([]string{one, two}, []string{"it's", "of the other"}, "values")
	}
}

func errorClasses(c *context) {
	table := c.table("plain")
	var syntax *gocql.RequestErrSyntax
	if err := c.session.Query("SELEC * FROM nowhere").Exec(); !errors.As(err, &syntax) {
		fail("syntax: %T %v", err, err)
	}
	var invalid *gocql.RequestErrInvalid
	if err := c.session.Query("SELECT nothing FROM " + table).Exec(); !errors.As(err, &invalid) {
		fail("invalid: %T %v", err, err)
	}
	var exists *gocql.RequestErrAlreadyExists
	if err := c.session.Query("CREATE TABLE " + table + " (k int PRIMARY KEY)").Exec(); !errors.As(err, &exists) {
		fail("already exists: %T %v", err, err)
	}
	equal([]string{exists.Keyspace, exists.Table}, []string{c.keyspace, "plain"}, "already exists")
	for _, text := range []string{"SELECT v FROM " + table + " WHERE k = 1", "INSERT INTO " + table + " (k) VALUES (1)"} {
		var unavailable *gocql.RequestErrUnavailable
		if err := c.session.Query(text).Consistency(gocql.Three).Exec(); !errors.As(err, &unavailable) {
			fail("unavailable: %T %v", err, err)
		}
		equal([]any{unavailable.Consistency, unavailable.Required, unavailable.Alive}, []any{gocql.Three, 3, 1}, "unavailable")
	}
	equal(textOf(c, 1), "it's", "the session still works")
}

func idempotence(c *context) {
	for _, idempotent := range []bool{true, false} {
		must(c.session.Query("UPDATE "+c.table("plain")+" SET v = ? WHERE k = 700", "i").Idempotent(idempotent).Exec())
	}
	equal(textOf(c, 700), "i", "value")
}
