// The common script with Apache's Go driver.
package main

import (
	"flag"
	"net"
	"os"
	"strconv"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// context is one session in the driver's default configuration, and means to open others.
type context struct {
	host, direct string
	port         int
	expectNodes  int
	keyspace     string
	session      *gocql.Session
}

func (c *context) config() *gocql.ClusterConfig {
	config := gocql.NewCluster(c.host)
	config.Port = c.port
	return config
}

func (c *context) open(change func(*gocql.ClusterConfig)) *gocql.Session {
	config := c.config()
	change(config)
	session, err := config.CreateSession()
	must(err)
	return session
}

// openDirect connects behind the proxy if the caller named the cluster itself.
func (c *context) openDirect() *gocql.Session {
	return c.open(func(config *gocql.ClusterConfig) {
		if c.direct == "" {
			return
		}
		host, port, err := net.SplitHostPort(c.direct)
		must(err)
		config.Hosts = []string{host}
		config.Port, err = strconv.Atoi(port)
		must(err)
	})
}

func (c *context) table(name string) string { return c.keyspace + "." + name }

func (c *context) exec(statement string, values ...any) {
	must(c.session.Query(statement, values...).Exec())
}

func connect(c *context) {
	session, err := c.config().CreateSession()
	must(err)
	c.session = session
	slow := c.open(func(config *gocql.ClusterConfig) { config.Timeout = 30 * time.Second })
	defer slow.Close()
	must(slow.Query("DROP KEYSPACE IF EXISTS " + c.keyspace).Exec())
	must(slow.Query("CREATE KEYSPACE " + c.keyspace +
		" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").Exec())
}

func main() {
	c := &context{}
	name := flag.String("name", "go", "name of this driver in the report")
	flag.StringVar(&c.host, "host", "127.0.0.1", "contact point")
	flag.IntVar(&c.port, "port", 9042, "its port")
	flag.IntVar(&c.expectNodes, "expect-nodes", 0, "how many hosts the driver should see")
	flag.StringVar(&c.direct, "direct", "", "host:port of a node behind the proxy")
	flag.Parse()
	c.keyspace = "conf_" + *name

	if runAll(*name, []check{{"connect", connect}}, c) > 0 {
		os.Exit(1)
	}
	var all []check
	for _, part := range [][]check{metadataChecks, valueChecks, statementChecks, transportChecks()} {
		all = append(all, part...)
	}
	failed := runAll(*name, all, c)
	_ = c.session.Query("DROP KEYSPACE " + c.keyspace).Exec()
	c.session.Close()
	if failed > 0 {
		os.Exit(1)
	}
}
