//! The promises every store makes.

use std::sync::Arc;

use harness_session::SqliteStore;
use harness_testkit::session_store;
use harness_types::{MemoryStore, SessionStore};

#[tokio::test(flavor = "current_thread")]
async fn the_sqlite_store_conforms() {
    let folder = tempfile::tempdir().unwrap();
    session_store::conformance(|| Arc::new(SqliteStore::new(folder.path()))).await;
}

#[tokio::test(flavor = "current_thread")]
async fn the_memory_store_conforms() {
    let memory = Arc::new(MemoryStore::new());
    session_store::conformance(|| Arc::clone(&memory) as Arc<dyn SessionStore>).await;
}
