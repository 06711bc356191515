//! Real Cassandra nodes on loopback, from Maven jars.
