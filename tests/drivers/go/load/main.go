// A small closed loop with Apache's Go driver, until standard input ends.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

const (
	tasks     = 8
	errorsMax = 3
	write     = "INSERT INTO load_go.t (k, v) VALUES (?, ?)"
	read      = "SELECT v FROM load_go.t WHERE k = ?"
)

type found struct {
	Requests  int      `json:"requests"`
	Failed    int      `json:"failed"`
	LongestMs int64    `json:"longest_ms"`
	Errors    []string `json:"errors"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	_ = flag.String("name", "go", "name of this driver in the report")
	host := flag.String("host", "127.0.0.1", "contact point")
	port := flag.Int("port", 9042, "its port")
	flag.Parse()
	// Two connections and one for events, and no retries, by default.
	config := gocql.NewCluster(*host)
	config.Port = *port
	setup := *config
	setup.Timeout = 30 * time.Second
	session, err := setup.CreateSession()
	must(err)
	must(session.Query("CREATE KEYSPACE IF NOT EXISTS load_go WITH replication = " +
		"{'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
	must(session.Query("CREATE TABLE IF NOT EXISTS load_go.t (k int PRIMARY KEY, v int)").Exec())
	session.Close()
	session, err = config.CreateSession()
	must(err)

	var stop atomic.Bool
	var lock sync.Mutex
	var all found
	one := func(request func() error) bool {
		began := time.Now()
		err := request()
		took := time.Since(began).Milliseconds()
		lock.Lock()
		defer lock.Unlock()
		all.Requests++
		all.LongestMs = max(all.LongestMs, took)
		if err != nil {
			all.Failed++
			if len(all.Errors) < errorsMax {
				all.Errors = append(all.Errors, fmt.Sprintf("%T: %.300v", err, err))
			}
		}
		return err == nil
	}
	var group sync.WaitGroup
	for key := 0; key < tasks; key++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for value := 1; !stop.Load(); value++ {
				if !one(func() error { return session.Query(write, key, value).Exec() }) {
					continue
				}
				one(func() error {
					var v int
					err := session.Query(read, key).Scan(&v)
					if err == nil && v != value {
						err = fmt.Errorf("key %d is %d, not %d", key, v, value)
					}
					return err
				})
			}
		}()
	}
	fmt.Println("running")
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop.Store(true)
	group.Wait()
	session.Close()
	line, err := json.Marshal(all)
	must(err)
	fmt.Println(string(line))
}
