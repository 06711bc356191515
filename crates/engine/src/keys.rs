//! Names of what an engine keeps, typed by what they name: never those of a later one in its place.

slotmap::new_key_type! {
    /// Names a client's connection.
    pub struct SessionKey;
    /// Names a connection to a node.
    pub struct LinkKey;
    /// Names the links of a role.
    pub struct PoolKey;
    /// Names what a client waits for.
    pub struct ClientRequestKey;
    /// Names a node request to a node.
    pub struct NodeRequestKey;
}
