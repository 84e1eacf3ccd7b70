//! Actions for the outside, and the orders among them that the metadata store has not answered.

use super::{Action, OrderId};
use crate::catalog::{Order, OrderError, Reply};
use crate::task::Answer;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Actions to be carried out outside, oldest first.
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

/// Orders on their way to the metadata store.
pub(crate) struct Orders {
    outbox: Rc<Outbox>,
    sent: Cell<u64>,
    waiting: RefCell<BTreeMap<OrderId, Answer<Result<Reply, OrderError>>>>,
}

impl Orders {
    pub(crate) fn new(outbox: Rc<Outbox>) -> Rc<Orders> {
        Rc::new(Orders { outbox, sent: Cell::default(), waiting: RefCell::default() })
    }

    /// Asks the metadata store, and waits for its answer.
    pub(crate) async fn send(&self, order: Order) -> Result<Reply, OrderError> {
        self.sent.set(self.sent.get() + 1);
        let (id, answer) = (OrderId(self.sent.get()), Answer::new());
        self.waiting.borrow_mut().insert(id, answer.clone());
        self.outbox.push(Action::Order(id, order));
        answer.await
    }

    /// The metadata store has answered.
    pub(crate) fn on_reply(&self, id: OrderId, reply: Result<Reply, OrderError>) {
        let answer = self.waiting.borrow_mut().remove(&id);
        answer.expect("an order is answered once").give(reply);
    }
}
