//! Rights on layouts: a role needs on a layout's table what it has on the table.
//!
//! Requests run under the client's own role, and a role without the right would be refused. What a role
//! has on the whole keyspace holds for layouts in it anyway; on a derived layout, which is in another keyspace, it needs
//! that as well: on that keyspace, if there is nothing else in it, or else on the layout. A right that it has on the layout alone would show it the table's rows.

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
type Grants = BTreeMap<String, BTreeSet<String>>;

/// All rights on data: role, resource, permissions.
type Rights = Vec<(String, String, Option<Vec<String>>)>;

async fn all(cluster: &Cluster) -> Result<Rights> {
    cluster
        .rows("SELECT role, resource, permissions FROM system_auth.role_permissions")
        .await
}

/// The rights on one table itself.
fn of_table(rights: &Rights, name: &TableName) -> Grants {
    of_resources(rights, &[format!("data/{}/{}", name.keyspace, name.table)])
}

/// The rights on one table that roles have on itself, or on all tables of its keyspace.
fn reaching(rights: &Rights, name: &TableName) -> Grants {
    let keyspace = format!("data/{}", name.keyspace);
    let tables = format!("{keyspace}/*");
    let mut grants = of_resources(rights, &[keyspace, tables]);
    // Of keyspaces only.
    for permissions in grants.values_mut() {
        permissions.remove("CREATE");
    }
    grants.retain(|_, permissions| !permissions.is_empty());
    for (role, permissions) in of_table(rights, name) {
        grants.entry(role).or_default().extend(permissions);
    }
    grants
}

fn of_resources(rights: &Rights, wanted: &[String]) -> Grants {
    let mut grants = Grants::new();
    for (role, _, permissions) in rights.iter().filter(|(_, of, _)| wanted.contains(of)) {
        let names = permissions.iter().flatten().cloned();
        grants.entry(role.clone()).or_default().extend(names);
    }
    grants
}

/// Where a layout's rights are not those of the table.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Differing {
    /// Permissions on the table and not on the layout, by role.
    pub missing: Grants,
    /// Permissions on the layout and not on the table.
    pub excess: Grants,
}

impl Differing {
    fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.excess.is_empty()
    }
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
    Ok(compared(&all(cluster).await?, table, copy))
}

fn compared(rights: &Rights, table: &TableName, copy: &TableName) -> Differing {
    let copied = of_table(rights, copy);
    if table.keyspace == copy.keyspace {
        let own = of_table(rights, table);
        return Differing {
            missing: less(&own, &copied),
            excess: less(&copied, &own),
        };
    }
    let own = reaching(rights, table);
    Differing {
        missing: less(&own, &reaching(rights, copy)),
        excess: less(&copied, &own),
    }
}

/// Grants that are in the first and not in the second.
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

/// Where a right on all tables of a keyspace is kept, behind the keyspace's name, and how it is given.
const OF_KEYSPACES: [(&str, &str); 2] = [("", "KEYSPACE"), ("/*", "ALL TABLES IN KEYSPACE")];

/// Where the rights on a keyspace that holds only layouts of tables of another are not those on that one, by how they are
/// given. They are seen twice, like those of tables.
pub(crate) async fn differing_keyspaces(
    cluster: &Cluster,
    own: &Name,
    home: &Name,
) -> Result<Vec<(&'static str, Differing)>> {
    let look = async || -> Result<Vec<Differing>> {
        let rights = all(cluster).await?;
        let each = OF_KEYSPACES.iter();
        Ok(each
            .map(|(behind, _)| compared_keyspaces(&rights, own, home, behind))
            .collect())
    };
    let first = look().await?;
    if first.iter().all(Differing::is_empty) {
        return Ok(Vec::new());
    }
    tokio::time::sleep(PAUSE).await;
    let second = look().await?;
    let twice = first.iter().zip(&second).map(|(first, second)| Differing {
        missing: both(&first.missing, &second.missing),
        excess: both(&first.excess, &second.excess),
    });
    let named = OF_KEYSPACES.iter().map(|(_, on)| *on).zip(twice);
    Ok(named.filter(|(_, of)| !of.is_empty()).collect())
}

fn compared_keyspaces(rights: &Rights, own: &Name, home: &Name, behind: &str) -> Differing {
    let of = |keyspace: &Name| {
        let mut grants = of_resources(rights, &[format!("data/{keyspace}{behind}")]);
        // Nobody but commands makes tables there.
        for permissions in grants.values_mut() {
            permissions.remove("CREATE");
        }
        grants
    };
    let (own, held) = (of(own), of(home));
    Differing {
        missing: less(&own, &held),
        excess: less(&held, &own),
    }
}

/// Makes the rights on a keyspace that holds only layouts of tables of another those on that one; see [`make_equal`].
pub(crate) async fn make_keyspaces_equal(
    cluster: &Cluster,
    own: &Name,
    home: &Name,
    but: Option<&str>,
) -> Result<()> {
    let full = home.to_cql();
    for (on, differing) in differing_keyspaces(cluster, own, home).await? {
        for (role, permissions) in &differing.missing {
            let role = Name::from_stored(role.as_str());
            for permission in permissions {
                let grant = format!("GRANT {permission} ON {on} {full} TO {}", role.to_cql());
                cluster.run(&grant).await?;
            }
        }
        let others = differing.excess.iter();
        for (role, permissions) in others.filter(|(role, _)| but != Some(role.as_str())) {
            let role = Name::from_stored(role.as_str());
            for permission in authorize_last(permissions) {
                let revoke = format!("REVOKE {permission} ON {on} {full} FROM {}", role.to_cql());
                cluster.run(&revoke).await?;
            }
        }
    }
    Ok(())
}

/// Takes the right to read a layout's table from all roles that have it on the table itself.
pub(crate) async fn take_reading(cluster: &Cluster, copy: &TableName) -> Result<()> {
    for (role, permissions) in of_table(&all(cluster).await?, copy) {
        if permissions.contains("SELECT") {
            let role = Name::from_stored(role.as_str());
            let (full, role) = (copy.to_cql(), role.to_cql());
            cluster
                .run(&format!("REVOKE SELECT ON TABLE {full} FROM {role}"))
                .await?;
        }
    }
    Ok(())
}

/// Without AUTHORIZE, a role could not take the others from itself.
fn authorize_last(permissions: &BTreeSet<String>) -> Vec<&str> {
    let mut sorted: Vec<&str> = permissions.iter().map(String::as_str).collect();
    sorted.sort_by_key(|permission| *permission == "AUTHORIZE");
    sorted
}

/// Lets the role of the proxies read the catalogue.
pub(crate) async fn let_read(cluster: &Cluster, role: &str) -> Result<()> {
    let role = Name::from_stored(role);
    let grant = format!("GRANT SELECT ON KEYSPACE helenus TO {}", role.to_cql());
    cluster.run(&grant).await
}

/// Lets the role of the proxies change a table of the keyspace helenus.
pub(crate) async fn let_write(cluster: &Cluster, table: &str, role: &str) -> Result<()> {
    let role = Name::from_stored(role);
    let grant = format!("GRANT MODIFY ON TABLE helenus.{table} TO {}", role.to_cql());
    cluster.run(&grant).await
}

/// True if the cluster checks its clients' permissions.
pub(crate) async fn are_checked(cluster: &Cluster) -> bool {
    let list = "LIST ALL PERMISSIONS ON KEYSPACE system_schema";
    let Err(refused) = cluster.run(list).await else {
        return true;
    };
    let why = format!("{refused:#}");
    // Messages of an authorizer that checks nothing, and to clients without a name.
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
    fn a_derived_layout_needs_what_roles_have_on_the_keyspace_of_the_table() {
        let rights: Rights = [
            ("a", "data/shop", &["CREATE", "MODIFY"][..]),
            ("b", "data/shop/*", &["SELECT"]),
            ("b", "data/shop/orders", &["MODIFY"]),
            ("c", "data/shop/others", &["SELECT"]),
            ("d", "data/shop/orders", &["SELECT"]),
            ("d", "data/far", &["SELECT"]),
            ("e", "data/far/orders__layout_a", &["SELECT"]),
            ("f", "data/shop/orders__layout_a", &["SELECT"]),
            ("g", "data/shop", &["CREATE"]),
        ]
        .map(|(role, resource, permissions)| {
            let permissions = permissions.iter().map(|of| (*of).to_owned()).collect();
            (role.to_owned(), resource.to_owned(), Some(permissions))
        })
        .into();
        let [table, near, far] = [
            "shop.orders",
            "shop.orders__layout_a",
            "far.orders__layout_a",
        ]
        .map(|name| name.parse::<TableName>().expect(name));
        let derived = Differing {
            missing: grants(&[("a", "MODIFY"), ("b", "SELECT"), ("b", "MODIFY")]),
            excess: grants(&[("e", "SELECT")]),
        };
        assert_eq!(compared(&rights, &table, &far), derived);
        let beside = Differing {
            missing: grants(&[("b", "MODIFY"), ("d", "SELECT")]),
            excess: grants(&[("f", "SELECT")]),
        };
        assert_eq!(compared(&rights, &table, &near), beside);
    }

    #[test]
    fn the_keyspace_of_layouts_needs_what_roles_have_on_the_keyspace_of_their_tables() {
        let right = |role: &str, resource: &str, permissions: &[&str]| {
            let permissions = permissions.iter().map(|of| (*of).to_owned()).collect();
            (role.to_owned(), resource.to_owned(), Some(permissions))
        };
        let rights = vec![
            right("a", "data/shop", &["CREATE", "MODIFY"]),
            right("b", "data/shop/*", &["SELECT"]),
            right("b", "data/far", &["SELECT"]),
            right("c", "data/far/orders__layout_a", &["SELECT"]),
        ];
        let [own, home] = ["shop", "far"].map(Name::from_stored);
        let compared = |behind| compared_keyspaces(&rights, &own, &home, behind);
        let whole = Differing {
            missing: grants(&[("a", "MODIFY")]),
            excess: grants(&[("b", "SELECT")]),
        };
        assert_eq!(compared(""), whole);
        let tables = Differing {
            missing: grants(&[("b", "SELECT")]),
            excess: Grants::new(),
        };
        assert_eq!(compared("/*"), tables);
    }

    #[test]
    fn the_right_to_revoke_is_revoked_last() {
        let all = grants(&[("a", "ALTER"), ("a", "AUTHORIZE"), ("a", "SELECT")]);
        assert_eq!(authorize_last(&all["a"]), ["ALTER", "SELECT", "AUTHORIZE"]);
    }
}
