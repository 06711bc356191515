//! Metrics, health and dashboard over HTTP.

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::shared::Shared;

/// Serves until the proxy ends.
pub async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    let _ = (shared, listener);
}
