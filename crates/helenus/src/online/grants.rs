//! Rights on layouts: a role needs on a layout's table what it has on the table.
//!
//! Requests run under the client's own role, and a role without the right would be refused. What a role
//! has on the whole keyspace holds for layouts anyway. A right that it has on the layout alone would show it
//! the table's rows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use helenus_cql::Name;
use helenus_rows::TableName;

use super::cluster::Cluster;

/// Between two looks at rights: a GRANT through a proxy is carried out on all tables meanwhile.
const PAUSE: Duration = Duration::from_secs(1);
const LOOKS: u32 = 5;

/// Permissions by role.
pub(crate) type Grants = BTreeMap<String, BTreeSet<String>>;

/// The rights on one table itself, if they can be read and the cluster knows rights at all.
pub(crate) async fn on_table(cluster: &Cluster, name: &TableName) -> Result<Grants> {
    on(cluster, &format!("data/{}/{}", name.keyspace, name.table)).await
}

async fn on(cluster: &Cluster, wanted: &str) -> Result<Grants> {
    Ok(of(&all(cluster).await?, wanted))
}

/// A role, what its rights are on, and which they are.
type Row = (String, String, Option<Vec<String>>);

async fn all(cluster: &Cluster) -> Result<Vec<Row>> {
    cluster
        .rows("SELECT role, resource, permissions FROM system_auth.role_permissions")
        .await
}

fn of(rows: &[Row], wanted: &str) -> Grants {
    let mut grants = Grants::new();
    for (role, _, permissions) in rows.iter().filter(|(_, resource, _)| resource == wanted) {
        let names = permissions.iter().flatten().cloned();
        grants.entry(role.clone()).or_default().extend(names);
    }
    grants
}

/// Where a layout's rights are not those of the table.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Differing {
    /// What roles have on the table and not on the layout.
    pub missing: Grants,
    /// What they have on the layout and not on the table.
    pub excess: Grants,
}

impl Differing {
    fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.excess.is_empty()
    }
}

impl Differing {
    /// What gives the table the rights that the layout has beside its own.
    pub(crate) fn granting(&self, table: &TableName) -> Vec<String> {
        let mut commands = Vec::new();
        for (role, permissions) in &self.excess {
            let role = Name::from_stored(role.as_str());
            commands.extend(permissions.iter().map(|permission| {
                let (table, role) = (table.to_cql(), role.to_cql());
                format!("GRANT {permission} ON TABLE {table} TO {role};")
            }));
        }
        commands
    }
}

/// What reading and writing rows needs.
const USE: [&str; 2] = ["SELECT", "MODIFY"];

/// How the rights on a table differ from those on a copy in a keyspace of its own, for whoever uses the copy and is to use
/// the table again. Seen twice, as in [`differing`].
pub(crate) async fn use_differing(
    cluster: &Cluster,
    table: &TableName,
    copy: &TableName,
) -> Result<Differing> {
    let first = use_differing_in(&all(cluster).await?, table, copy);
    if first.is_empty() {
        return Ok(first);
    }
    tokio::time::sleep(PAUSE).await;
    let second = use_differing_in(&all(cluster).await?, table, copy);
    Ok(Differing {
        missing: both(&first.missing, &second.missing),
        excess: both(&first.excess, &second.excess),
    })
}

fn use_differing_in(rows: &[Row], table: &TableName, copy: &TableName) -> Differing {
    let (own, on_copy) = (held(rows, table), held(rows, copy));
    let mut used = on_copy.clone();
    for permissions in used.values_mut() {
        // Of what somebody has on more than the copy: its keyspace has no other tables.
        permissions.retain(|permission| USE.contains(&&**permission));
    }
    for (role, permissions) in of(rows, &format!("data/{}/{}", copy.keyspace, copy.table)) {
        used.entry(role).or_default().extend(permissions);
    }
    let mut excess = less(&used, &own);
    // They are given it on the table.
    for role in keepers_in(&of(rows, &format!("data/{}", copy.keyspace))) {
        if let Some(permissions) = excess.get_mut(&role) {
            permissions.retain(|permission| !USE.contains(&&**permission));
        }
    }
    excess.retain(|_, permissions| !permissions.is_empty());
    Differing {
        missing: less(&own, &on_copy),
        excess,
    }
}

/// What roles have on a table: on itself, its keyspace, all tables in it (since 4.1), or all keyspaces.
fn held(rows: &[Row], name: &TableName) -> Grants {
    let keyspace = &name.keyspace;
    let mut held = Grants::new();
    for resource in [
        format!("data/{keyspace}/{}", name.table),
        format!("data/{keyspace}"),
        format!("data/{keyspace}/*"),
        "data".to_owned(),
    ] {
        for (role, mut permissions) in of(rows, &resource) {
            // It is about other tables.
            permissions.remove("CREATE");
            held.entry(role).or_default().extend(permissions);
        }
    }
    held
}

/// Differences that are seen twice. Proxies carry out GRANT and REVOKE on the layouts first and on the
/// table then: in between, each is seen as a difference, and must not be undone.
pub(crate) async fn differing(
    cluster: &Cluster,
    table: &TableName,
    copy: &TableName,
) -> Result<Differing> {
    let first = look(cluster, table, copy).await?;
    if first.is_empty() {
        return Ok(first);
    }
    tokio::time::sleep(PAUSE).await;
    let second = look(cluster, table, copy).await?;
    Ok(Differing {
        missing: both(&first.missing, &second.missing),
        excess: both(&first.excess, &second.excess),
    })
}

async fn look(cluster: &Cluster, table: &TableName, copy: &TableName) -> Result<Differing> {
    let mut own = on_table(cluster, table).await?;
    if copy.keyspace != table.keyspace {
        // What a role has on the whole keyspace does not hold for tables in another one.
        let of_keyspace = on(cluster, &format!("data/{}", table.keyspace)).await?;
        for (role, mut permissions) in of_keyspace {
            permissions.remove("CREATE");
            own.entry(role).or_default().extend(permissions);
        }
        own.retain(|_, permissions| !permissions.is_empty());
    }
    let copied = on_table(cluster, copy).await?;
    Ok(Differing {
        missing: less(&own, &copied),
        excess: less(&copied, &own),
    })
}

/// What is in the first and not in the second.
fn less(first: &Grants, second: &Grants) -> Grants {
    let none = BTreeSet::new();
    let mut less = Grants::new();
    for (role, permissions) in first {
        let has = second.get(role).unwrap_or(&none);
        let lacks: BTreeSet<String> = permissions.difference(has).cloned().collect();
        if !lacks.is_empty() {
            less.insert(role.clone(), lacks);
        }
    }
    less
}

fn both(first: &Grants, second: &Grants) -> Grants {
    less(first, &less(first, second))
}

/// Makes the rights on a layout those on its table. Those of the role `but` are not taken away: Cassandra
/// gives all rights on a table to whoever creates it, and it needs them until the layout is filled.
pub(crate) async fn make_equal(
    cluster: &Cluster,
    table: &TableName,
    copy: &TableName,
    but: Option<&str>,
) -> Result<()> {
    let full = copy.to_cql();
    for _ in 0..LOOKS {
        let mut differing = differing(cluster, table, copy).await?;
        if let Some(role) = but {
            differing.excess.remove(role);
        }
        for (role, permissions) in &differing.missing {
            let role = Name::from_stored(role.as_str());
            for permission in permissions {
                let grant = format!("GRANT {permission} ON TABLE {full} TO {}", role.to_cql());
                cluster.run(&grant).await?;
            }
        }
        for (role, permissions) in &differing.excess {
            let role = Name::from_stored(role.as_str());
            for permission in authorize_last(permissions) {
                let revoke = format!("REVOKE {permission} ON TABLE {full} FROM {}", role.to_cql());
                cluster.run(&revoke).await?;
            }
        }
        if differing.is_empty() {
            return Ok(());
        }
    }
    bail!("the rights on {full} still differ: does somebody else change them?")
}

/// Without AUTHORIZE, a role could not take the others from itself.
fn authorize_last(permissions: &BTreeSet<String>) -> Vec<&str> {
    let mut sorted: Vec<&str> = permissions.iter().map(String::as_str).collect();
    sorted.sort_by_key(|permission| *permission == "AUTHORIZE");
    sorted
}

/// Lets the role of the proxies read the catalogue, and change these of its tables.
pub(crate) async fn let_use(cluster: &Cluster, role: &str, changed: &[&str]) -> Result<()> {
    let role = Name::from_stored(role);
    let role = role.to_cql();
    let read = format!("GRANT SELECT ON KEYSPACE helenus TO {role}");
    cluster.run(&read).await?;
    for table in changed {
        let change = format!("GRANT MODIFY ON TABLE helenus.{table} TO {role}");
        cluster.run(&change).await?;
    }
    Ok(())
}

/// Lets the role of the proxies read and change what is in a keyspace: they make its tables equal to others.
pub(crate) async fn let_keep(cluster: &Cluster, role: &str, keyspace: &Name) -> Result<()> {
    let role = Name::from_stored(role);
    for permission in USE {
        let grant = format!(
            "GRANT {permission} ON KEYSPACE {} TO {}",
            keyspace.to_cql(),
            role.to_cql()
        );
        cluster.run(&grant).await?;
    }
    Ok(())
}

/// The roles that may.
pub(crate) async fn keepers(cluster: &Cluster, keyspace: &Name) -> Result<Vec<String>> {
    Ok(keepers_in(&on(cluster, &format!("data/{keyspace}")).await?))
}

fn keepers_in(of_keyspace: &Grants) -> Vec<String> {
    let may = |permissions: &BTreeSet<String>| USE.iter().all(|of| permissions.contains(*of));
    let roles = of_keyspace
        .iter()
        .filter(|(_, permissions)| may(permissions));
    roles.map(|(role, _)| role.clone()).collect()
}

/// The same for one table.
pub(crate) async fn let_keep_table(cluster: &Cluster, role: &str, table: &TableName) -> Result<()> {
    let own = on_table(cluster, table).await?;
    let has = |permission: &str| own.get(role).is_some_and(|of| of.contains(permission));
    let role = Name::from_stored(role);
    for permission in USE.into_iter().filter(|permission| !has(permission)) {
        let grant = format!(
            "GRANT {permission} ON TABLE {} TO {}",
            table.to_cql(),
            role.to_cql()
        );
        cluster.run(&grant).await?;
    }
    Ok(())
}

/// Whether the cluster checks what its clients may do.
pub(crate) async fn are_checked(cluster: &Cluster) -> bool {
    let list = "LIST ALL PERMISSIONS ON KEYSPACE system_schema";
    let Err(refused) = cluster.run(list).await else {
        return true;
    };
    let why = format!("{refused:#}");
    // What an authorizer says that checks nothing, and what is said to clients without a name.
    !(why.contains("AllowAllAuthorizer") || why.contains("anonymous"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(rights: &[(&str, &str)]) -> Grants {
        let mut grants = Grants::new();
        for (role, permission) in rights {
            let of_role = grants.entry((*role).to_owned()).or_default();
            of_role.insert((*permission).to_owned());
        }
        grants
    }

    #[test]
    fn rights_differ_both_ways() {
        let own = grants(&[("a", "SELECT"), ("a", "MODIFY"), ("b", "SELECT")]);
        let copied = grants(&[
            ("a", "SELECT"),
            ("b", "SELECT"),
            ("b", "MODIFY"),
            ("c", "ALTER"),
        ]);
        assert_eq!(less(&own, &copied), grants(&[("a", "MODIFY")]));
        let excess = grants(&[("b", "MODIFY"), ("c", "ALTER")]);
        assert_eq!(less(&copied, &own), excess);
        // Of what one look has found, the next finds a part again.
        assert_eq!(
            both(&excess, &grants(&[("c", "ALTER"), ("d", "DROP")])),
            grants(&[("c", "ALTER")])
        );
    }

    #[test]
    fn who_uses_a_copy_and_could_not_use_the_table_is_told() {
        let (table, copy): (TableName, TableName) = (
            "shop.orders".parse().expect("a name"),
            "shop__orders__x.orders".parse().expect("a name"),
        );
        let row = |role: &str, resource: &str, permissions: &[&str]| -> Row {
            let permissions = permissions.iter().map(|of| (*of).to_owned()).collect();
            (role.to_owned(), resource.to_owned(), Some(permissions))
        };
        let (own, of_copy) = ("data/shop/orders", "data/shop__orders__x/orders");
        let rows = [
            row("both", own, &["SELECT"]),
            row("both", of_copy, &["SELECT"]),
            // As `create` gives on copies what somebody has on more than the table.
            row("wide", "data/shop", &["ALTER", "CREATE", "SELECT"]),
            row("wide", of_copy, &["ALTER", "SELECT"]),
            row("wider", "data/shop/*", &["SELECT"]),
            row("wider", of_copy, &["SELECT"]),
            row("widest", "data", &["MODIFY"]),
            row("widest", of_copy, &["MODIFY"]),
            row("proxy", "data/shop__orders__x", &["MODIFY", "SELECT"]),
            row(
                "maker",
                "data/shop__orders__x",
                &["ALTER", "MODIFY", "SELECT"],
            ),
        ];
        let differing = use_differing_in(&rows, &table, &copy);
        assert!(differing.is_empty(), "{differing:?}");
        let mut more = rows.to_vec();
        more.push(row("reader", "data/shop__orders__x", &["SELECT"]));
        more.push(row("writer", of_copy, &["MODIFY"]));
        more.push(row("proxy", of_copy, &["ALTER", "MODIFY"]));
        more.push(row("analyst", "data/shop", &["SELECT"]));
        let differing = use_differing_in(&more, &table, &copy);
        assert_eq!(
            differing.granting(&table),
            [
                "GRANT ALTER ON TABLE shop.orders TO proxy;",
                "GRANT SELECT ON TABLE shop.orders TO reader;",
                "GRANT MODIFY ON TABLE shop.orders TO writer;"
            ]
        );
        assert_eq!(differing.missing, grants(&[("analyst", "SELECT")]));
    }

    #[test]
    fn the_right_to_revoke_is_revoked_last() {
        let all = grants(&[("a", "ALTER"), ("a", "AUTHORIZE"), ("a", "SELECT")]);
        assert_eq!(authorize_last(&all["a"]), ["ALTER", "SELECT", "AUTHORIZE"]);
    }
}
