//! Actions for the outside, and the orders among them that wait for a reply of the metadata store.

use super::{Action, OrderId};
use crate::catalog::{Order, OrderError, Reply};
use crate::task::Answer;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The actions to be carried out outside, oldest first.
#[derive(Default)]
pub(crate) struct Outbox(RefCell<VecDeque<Action>>);

impl Outbox {
    pub(crate) fn push(&self, action: Action) {
        self.0.borrow_mut().push_back(action);
    }

    pub(crate) fn pop(&self) -> Option<Action> {
        self.0.borrow_mut().pop_front()
    }
}

/// The orders in flight to the metadata store.
pub(crate) struct Orders {
    outbox: Rc<Outbox>,
    sent: Cell<u64>,
    waiting: RefCell<BTreeMap<OrderId, Answer<Result<Reply, OrderError>>>>,
}

impl Orders {
    pub(crate) fn new(outbox: Rc<Outbox>) -> Rc<Orders> {
        Rc::new(Orders { outbox, sent: Cell::default(), waiting: RefCell::default() })
    }

    /// Sends an order to the metadata store, and waits for the reply.
    pub(crate) async fn send(&self, order: Order) -> Result<Reply, OrderError> {
        self.sent.set(self.sent.get() + 1);
        let (id, answer) = (OrderId(self.sent.get()), Answer::new());
        self.waiting.borrow_mut().insert(id, answer.clone());
        self.outbox.push(Action::Order(id, order));
        answer.await
    }

    /// Takes the reply of the metadata store.
    pub(crate) fn on_reply(&self, id: OrderId, reply: Result<Reply, OrderError>) {
        let answer = self.waiting.borrow_mut().remove(&id);
        answer.expect("an order is answered once").give(reply);
    }
}
