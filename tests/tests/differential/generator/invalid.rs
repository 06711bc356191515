//! Statements that Cassandra refuses.

use rand::seq::IndexedRandom;

use super::{Generator, KEYSPACE};

impl Generator {
    /// Statements that Cassandra refuses, each for its own reason.
    pub(crate) fn invalid(&mut self) -> String {
        let table = self.table();
        let t = format!("{KEYSPACE}.{}", table.name);
        let p = table.partition[0].name.clone();
        let r = table.regular[0].name.clone();
        let texts = [
            format!("SELEC * FROM {t}"),
            format!("SELECT * FROM {KEYSPACE}.missing"),
            format!("SELECT * FROM missing_keyspace.{}", table.name),
            format!("SELECT missing FROM {t}"),
            format!("SELECT * FROM {t} WHERE missing = 1"),
            format!("SELECT * FROM {t} WHERE {p} = {{1, 2}}"),
            format!("SELECT * FROM {t} WHERE {r} > 1"),
            format!("SELECT * FROM {t} LIMIT 0"),
            format!("SELECT * FROM {t} LIMIT -3"),
            format!("SELECT * FROM {t} ORDER BY {r}"),
            format!("SELECT nosuchfunction({p}) FROM {t}"),
            format!("INSERT INTO {t} ({p}) VALUES (1, 2)"),
            format!("INSERT INTO {t} ({p}, {p}) VALUES (1, 2)"),
            format!("INSERT INTO {t} JSON '{{\"{p}\": \"zz\", \"nope\": 1}}'"),
            format!("INSERT INTO {t} JSON 'no json'"),
            format!("UPDATE {t} SET {p} = 1 WHERE {p} = 2"),
            format!("UPDATE {t} SET {r} = {r} + 1"),
            format!("DELETE FROM {t}"),
            format!("DELETE FROM {t} USING TIMESTAMP 'x' WHERE {p} = 1"),
            format!("CREATE TABLE {t} ({p} int PRIMARY KEY)"),
            format!("CREATE TABLE {KEYSPACE}.bad (a int)"),
            format!("CREATE TABLE {KEYSPACE}.bad (a list<int> PRIMARY KEY)"),
            format!("CREATE TABLE {KEYSPACE}.bad (a int PRIMARY KEY, b nosuchtype)"),
            format!("ALTER TABLE {t} ADD {p} int"),
            format!("ALTER TABLE {t} DROP missing"),
            format!("ALTER TABLE {t} WITH compression = {{'class': 'Nope'}}"),
            format!("DROP TABLE {KEYSPACE}.missing"),
            "USE missing_keyspace".to_owned(),
            "SELECT * FROM t1 WHERE a".to_owned(),
            String::new(),
            ";".to_owned(),
            "-- nothing".to_owned(),
            "BEGIN BATCH APPLY BATCH".to_owned(),
            format!("BEGIN BATCH DELETE FROM {t} WHERE {p} = 1; SELECT * FROM {t}; APPLY BATCH"),
            format!("CREATE INDEX ON {t} (missing)"),
            format!("CREATE FUNCTION {KEYSPACE}.f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return 1;'"),
            format!("GRANT SELECT ON {t} TO nobody"),
            "LIST ROLES".to_owned(),
            format!("CREATE MATERIALIZED VIEW {KEYSPACE}.v AS SELECT * FROM {t} WHERE {p} IS NOT NULL PRIMARY KEY ({p})"),
            "SELECT keyspace_name, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = '{ks}'".to_owned(),
            "SELECT table_name, column_name, type, kind, position FROM system_schema.columns WHERE keyspace_name = '{ks}'".to_owned(),
            "SELECT table_name, comment FROM system_schema.tables WHERE keyspace_name = '{ks}'".to_owned(),
            "SELECT * FROM system_schema.types WHERE keyspace_name = '{ks}'".to_owned(),
            format!("DESCRIBE TABLE {KEYSPACE}.missing"),
        ];
        texts.choose(&mut self.rng).unwrap().clone()
    }
}
