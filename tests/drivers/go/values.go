package main

import (
	"math"
	"math/big"
	"net"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"gopkg.in/inf.v0"
)

var valueChecks = []check{
	{"simple_types", simpleTypes},
	{"collections_and_tuples", collections},
	{"user_types", userTypes},
	{"vectors", vectors},
	{"counters", counters},
	{"static_columns", staticColumns},
}

func uuid(text string) gocql.UUID {
	id, err := gocql.ParseUUID(text)
	must(err)
	return id
}

func bigNumber(text string) *big.Int {
	number, ok := new(big.Int).SetString(text, 10)
	if !ok {
		fail("no number: %s", text)
	}
	return number
}

func simpleTypes(c *context) {
	every := make([]byte, 256)
	for n := range every {
		every[n] = byte(n)
	}
	decimal, _ := new(inf.Dec).SetString("-1234567890.0987654321")
	values := map[string][]any{
		"tinyint":   {int8(-128), int8(127)},
		"smallint":  {int16(-32768), int16(32767)},
		"int":       {math.MinInt32, math.MaxInt32},
		"bigint":    {int64(math.MinInt64), int64(math.MaxInt64)},
		"varint":    {bigNumber("-1606938044258990275541962092341162602522202993782792835301376"), bigNumber("255")},
		"decimal":   {decimal},
		"float":     {float32(1.5), float32(math.Inf(1))},
		"double":    {0.1, -1e308},
		"boolean":   {true, false},
		"text":      {"", "naïve 漢字 🜚", strings.Repeat("x", 70000)},
		"ascii":     {"", "plain"},
		"blob":      {[]byte{}, every},
		"uuid":      {uuid("f81d4fae-7dec-41d0-a765-00a0c91e6bf6")},
		"timeuuid":  {uuid("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")},
		"timestamp": {time.UnixMilli(1709210096789).UTC(), time.UnixMilli(-1).UTC()},
		"date":      {time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		"time":      {time.Duration(0), time.Duration(86399999999999)},
		"duration":  {gocql.Duration{Months: 14, Days: 3, Nanoseconds: 123456789}, gocql.Duration{Months: -1, Days: -2, Nanoseconds: -3}},
		"inet":      {net.ParseIP("127.0.0.1").To4(), net.ParseIP("2001:db8::1")},
	}
	var columns []string
	for name := range values {
		columns = append(columns, "c_"+name+" "+name)
	}
	table := c.table("simple")
	c.exec("CREATE TABLE " + table + " (k int PRIMARY KEY, " + strings.Join(columns, ", ") + ")")
	for name, wanted := range values {
		for _, value := range wanted {
			c.exec("INSERT INTO "+table+" (k, c_"+name+") VALUES (?, ?)", 1, value)
			row := map[string]any{}
			must(c.session.Query("SELECT c_"+name+" FROM "+table+" WHERE k = ?", 1).MapScan(row))
			found := row["c_"+name]
			switch typed := value.(type) {
			case *big.Int:
				equal(found.(*big.Int).String(), typed.String(), name)
			case *inf.Dec:
				equal(found.(*inf.Dec).String(), typed.String(), name)
			case net.IP:
				equal(found.(net.IP).String(), typed.String(), name)
			case []byte:
				equal(string(found.([]byte)), string(typed), name)
			default:
				equal(found, value, name)
			}
		}
		c.exec("INSERT INTO "+table+" (k, c_"+name+") VALUES (?, ?)", 1, nil)
		var cell []byte
		must(c.session.Query("SELECT c_"+name+" FROM "+table+" WHERE k = ?", 1).Scan(&nullable{&cell}))
		if cell != nil {
			fail("%s: null came back as %x", name, cell)
		}
	}
}

// nullable keeps a cell's bytes as they are.
type nullable struct{ cell *[]byte }

func (n *nullable) UnmarshalCQL(_ gocql.TypeInfo, data []byte) error {
	*n.cell = data
	return nil
}

func collections(c *context) {
	table := c.table("collected")
	c.exec("CREATE TABLE " + table + " (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, " +
		"n frozen<list<frozen<map<int, text>>>>, t tuple<int, text, frozen<list<int>>>)")
	nested := []map[int]string{{1: "a"}, {2: "b", 3: ""}}
	c.exec("INSERT INTO "+table+" (k, l, s, m, n, t) VALUES (?, ?, ?, ?, ?, (?, ?, ?))",
		1, []int{3, 1, 2, 1}, []string{"a", "b"}, map[string]int64{"k": 1 << 40, "": -1}, nested,
		7, "seven", []int{7, 7})
	var list []int
	var set []string
	var dictionary map[string]int64
	var found []map[int]string
	var number int
	var text string
	var inner []int
	must(c.session.Query("SELECT l, s, m, n, t FROM "+table+" WHERE k = ?", 1).
		Scan(&list, &set, &dictionary, &found, &number, &text, &inner))
	equal(list, []int{3, 1, 2, 1}, "list")
	equal(set, []string{"a", "b"}, "set")
	equal(dictionary, map[string]int64{"k": 1 << 40, "": -1}, "map")
	equal(found, nested, "nested")
	equal([]any{number, text, inner}, []any{7, "seven", []int{7, 7}}, "tuple")
}

func userTypes(c *context) {
	type street struct {
		Name   string `cql:"name"`
		Number int    `cql:"number"`
	}
	type address struct {
		Street street   `cql:"street"`
		Tags   []string `cql:"tags"`
		Zip    *string  `cql:"zip"`
	}
	c.exec("CREATE TYPE " + c.table("street") + " (name text, number int)")
	c.exec("CREATE TYPE " + c.table("address") + " (street frozen<street>, tags set<text>, zip text)")
	table := c.table("people")
	c.exec("CREATE TABLE " + table + " (k int PRIMARY KEY, home frozen<address>, others list<frozen<address>>)")
	home := address{street{"Main St", 12}, []string{"a", "b"}, nil}
	c.exec("INSERT INTO "+table+" (k, home, others) VALUES (?, ?, ?)", 1, home, []address{home, home})
	var found address
	var others []address
	must(c.session.Query("SELECT home, others FROM "+table+" WHERE k = 1").Scan(&found, &others))
	equal(found, home, "user type")
	equal(others, []address{home, home}, "list of user types")
}

func vectors(c *context) {
	table := c.table("vectors")
	c.exec("CREATE TABLE " + table + " (k int PRIMARY KEY, v vector<float, 3>)")
	wanted := []float32{0.5, -1.25, 3}
	c.exec("INSERT INTO "+table+" (k, v) VALUES (?, ?)", 1, wanted)
	var found []float32
	must(c.session.Query("SELECT v FROM " + table + " WHERE k = 1").Scan(&found))
	equal(found, wanted, "vector")
}

func counters(c *context) {
	table := c.table("counted")
	c.exec("CREATE TABLE " + table + " (k int PRIMARY KEY, n counter)")
	for _, step := range []int64{5, -2, 10} {
		c.exec("UPDATE "+table+" SET n = n + ? WHERE k = ?", step, 1)
	}
	var sum int64
	must(c.session.Query("SELECT n FROM " + table + " WHERE k = 1").Scan(&sum))
	equal(sum, int64(13), "counter")
}

func staticColumns(c *context) {
	table := c.table("static")
	c.exec("CREATE TABLE " + table + " (p int, c int, s text static, v int, PRIMARY KEY (p, c))")
	c.exec("INSERT INTO " + table + " (p, s) VALUES (1, 'shared')")
	var clustering *int
	var shared string
	must(c.session.Query("SELECT c, s FROM "+table+" WHERE p = 1").Scan(&clustering, &shared))
	if clustering != nil || shared != "shared" {
		fail("clustering %v, static %q", clustering, shared)
	}
}
