package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
)

const (
	rowCount = 1100
	pageSize = 97
)

func itoa(n int) string { return strconv.Itoa(n) }

func transportChecks() []check {
	checks := []check{
		{"paging", paging},
		{"paging_resumes_elsewhere", pagingResumes},
		{"five_hundred_at_once", fiveHundred},
		{"large_values", largeValues},
	}
	compressors := []struct {
		name       string
		compressor gocql.Compressor
	}{{"uncompressed", nil}, {"lz4", lz4.LZ4Compressor{}}, {"snappy", snappy.SnappyCompressor{}}}
	for _, version := range []int{3, 4, 5} {
		for _, one := range compressors {
			if version == 5 && one.name == "snappy" {
				continue // version 5 knows LZ4 only
			}
			checks = append(checks, check{fmt.Sprintf("protocol_v%d_%s", version, one.name), func(c *context) {
				subset(c, version, one.name, one.compressor)
			}})
		}
	}
	return checks
}

func paging(c *context) {
	table := c.table("paged")
	c.exec("CREATE TABLE " + table + " (p int, c int, v text, PRIMARY KEY (p, c))")
	var wait sync.WaitGroup
	slots := make(chan bool, 64)
	errs := make(chan error, rowCount)
	for n := 0; n < rowCount; n++ {
		wait.Add(1)
		slots <- true
		go func() {
			defer wait.Done()
			errs <- c.session.Query("INSERT INTO "+table+" (p, c, v) VALUES (?, ?, ?)", n%7, n, "row "+itoa(n)).Exec()
			<-slots
		}()
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		must(err)
	}
	for _, text := range []string{"SELECT c FROM " + table, "SELECT c FROM " + table + " WHERE p IN (0,1,2,3,4,5,6)"} {
		iter := c.session.Query(text).PageSize(pageSize).Iter()
		seen := map[int]bool{}
		rows := 0
		for n := 0; iter.Scan(&n); rows++ {
			seen[n] = true
		}
		must(iter.Close())
		equal([]int{rows, len(seen)}, []int{rowCount, rowCount}, text)
	}
}

func pagingResumes(c *context) {
	var state []byte
	seen := map[int]bool{}
	rows, pages := 0, 0
	for pages == 0 || len(state) > 0 {
		session := c.session
		if pages < 3 {
			session = c.open(func(*gocql.ClusterConfig) {})
		}
		iter := session.Query("SELECT c FROM " + c.table("paged")).PageSize(pageSize).PageState(state).Iter()
		state = append([]byte(nil), iter.PageState()...)
		if iter.NumRows() > pageSize {
			fail("page of %d rows", iter.NumRows())
		}
		for left := iter.NumRows(); left > 0; left-- {
			var n int
			if !iter.Scan(&n) {
				fail("row missing: %v", iter.Close())
			}
			seen[n] = true
			rows++
		}
		pages++
		if session != c.session {
			session.Close()
		}
	}
	equal([]int{rows, len(seen)}, []int{rowCount, rowCount}, "rows, distinct rows")
}

func fiveHundred(c *context) {
	errs := make(chan error, 500)
	for n := 0; n < 500; n++ {
		go func() {
			var v string
			err := c.session.Query("SELECT v FROM "+c.table("paged")+" WHERE p = ? AND c = ?", n%7, n).Scan(&v)
			if err == nil && v != "row "+itoa(n) {
				err = fmt.Errorf("row %d is %q", n, v)
			}
			errs <- err
		}()
	}
	for n := 0; n < 500; n++ {
		must(<-errs)
	}
}

func largeValues(c *context) {
	table := c.table("large")
	c.exec("CREATE TABLE " + table + " (k int PRIMARY KEY, v blob)")
	for key, size := range []int{131000, 131071, 131072, 300000, 1 << 20} {
		value := make([]byte, size)
		for n, state := 0, uint32(1); n < size; n++ {
			state = state*1664525 + 1013904223
			value[n] = byte(state >> 24)
		}
		c.exec("INSERT INTO "+table+" (k, v) VALUES (?, ?)", key, value)
		var found []byte
		must(c.session.Query("SELECT v FROM "+table+" WHERE k = ?", key).Scan(&found))
		if !bytes.Equal(found, value) {
			fail("%d bytes came back otherwise", size)
		}
	}
}

// subset runs a few operations of each kind over a session of one version and compression.
func subset(c *context, version int, name string, compressor gocql.Compressor) {
	session := c.open(func(config *gocql.ClusterConfig) {
		config.ProtoVersion = version
		config.Compressor = compressor
		config.Keyspace = c.keyspace
	})
	defer session.Close()
	table := fmt.Sprintf("short_%d_%s", version, name)
	must(session.Query("CREATE TABLE " + table + " (k int PRIMARY KEY, v text)").Exec())
	batch := session.Batch(gocql.UnloggedBatch)
	for n := 0; n < 40; n++ {
		must(session.Query("INSERT INTO "+table+" (k, v) VALUES (?, ?)", n, strings.Repeat("v", n)).Exec())
		batch.Query("UPDATE "+table+" SET v = ? WHERE k = ?", "batch", 40+n)
	}
	must(batch.Exec())
	iter := session.Query("SELECT k FROM " + table).PageSize(10).Iter()
	rows := 0
	for k := 0; iter.Scan(&k); rows++ {
	}
	must(iter.Close())
	equal(rows, 80, "rows")
	long := strings.Repeat("z", 200000)
	must(session.Query("INSERT INTO "+table+" (k, v) VALUES (?, ?)", 99, long).Exec())
	var found string
	must(session.Query("SELECT v FROM "+table+" WHERE k = ?", 99).Scan(&found))
	equal(found == long, true, "200,000 characters")
	if err := session.Query("SELECT * FROM nowhere").Exec(); err == nil {
		fail("no error for a missing table")
	}
}
