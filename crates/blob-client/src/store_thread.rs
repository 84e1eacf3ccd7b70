//! The thread that calls the metadata store: these calls block, and the volume's thread must not.

use crate::inbox::{Inbox, Job};
use blob::OrderId;
use blob::catalog::{self, Order};
use blob::store::Store;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// Starts the thread. It ends when the sender is dropped.
pub(crate) fn start(
    mut store: Box<dyn Store + Send>,
    inbox: Arc<Inbox>,
) -> io::Result<Sender<(OrderId, Order)>> {
    let (sender, orders) = channel::<(OrderId, Order)>();
    thread::Builder::new().name("blob-store".to_owned()).spawn(move || {
        for (id, order) in orders {
            let reply = catalog::execute(&mut *store, &order);
            inbox.put(Job::Reply(id, reply));
        }
    })?;
    Ok(sender)
}
