//! SQHD: the submission queue head, sent with every completion.
//!
//! The head moves when a command is answered, not when it is read. A host that obeys it never has more
//! outstanding commands than the queue has entries. Without flow control, the answer to Connect has FFFFh and
//! all later ones have 0.
//!
//! Read data that is its own completion (SUCCESS) carries no head. A host that obeys the head and only reads
//! would then find its queue full forever. So at most a quarter of the queue is answered in a row without
//! sending the head.
//!
//! Holds: `a_host_that_obeys_the_head_is_never_left_without_room_in_its_queue`.
//! NVM Express Base Specification: "Submission Queue Flow Control" (fabrics).

/// Whether completions carry the submission queue head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// They do.
    Enabled,
    /// They do not: the host requested this in Connect.
    Disabled,
}

/// At most 1/4 of the queue may be answered without sending the head.
const UNREPORTED_PART: u32 = 4;

/// SQHD in the answer to a Connect that turns flow control off.
const SQHD_NO_FLOW_CONTROL: u16 = 0xffff;

/// The head of one submission queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubmissionQueue {
    entries: u32,
    head: u32,
    /// Answers since the head was last sent.
    unreported: u32,
    flow_control: FlowControl,
    /// Without flow control: whether the answer to Connect has been sent.
    reported: bool,
}

impl SubmissionQueue {
    /// A queue of unknown size, assumed to be `entries`.
    pub(super) fn before_connect(entries: u32) -> Self {
        SubmissionQueue {
            entries,
            head: 0,
            unreported: 0,
            flow_control: FlowControl::Enabled,
            reported: false,
        }
    }

    /// A queue with only its first command, Connect, about to be completed.
    pub(super) fn connected(entries: u32, flow_control: FlowControl) -> Self {
        SubmissionQueue { entries, head: 0, unreported: 0, flow_control, reported: false }
    }

    /// Counts the completion of a command. Returns the SQHD to send.
    pub(super) fn complete(&mut self) -> u16 {
        match self.flow_control {
            FlowControl::Enabled => {
                self.advance();
                self.unreported = 0;
                self.head as u16
            }
            FlowControl::Disabled if self.reported => 0,
            FlowControl::Disabled => {
                self.reported = true;
                SQHD_NO_FLOW_CONTROL
            }
        }
    }

    /// Counts a command that its data alone completes. Returns false, and changes nothing, if the host must get the
    /// head now.
    pub(super) fn complete_by_data(&mut self) -> bool {
        if self.flow_control == FlowControl::Enabled {
            if self.unreported >= self.entries / UNREPORTED_PART {
                return false;
            }
            self.complete_silently();
        }
        true
    }

    /// Counts a command that ends without an answer.
    pub(super) fn complete_silently(&mut self) {
        self.advance();
        self.unreported += 1;
    }

    fn advance(&mut self) {
        self.head += 1;
        if self.head == self.entries {
            self.head = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_wraps_at_the_size_of_the_queue() {
        let mut queue = SubmissionQueue::connected(3, FlowControl::Enabled);
        assert_eq!([(); 5].map(|()| queue.complete()), [1, 2, 0, 1, 2]);
        let mut queue = SubmissionQueue::connected(1 << 16, FlowControl::Enabled);
        assert_eq!((1..=65535).map(|_| queue.complete()).last(), Some(0xffff));
        assert_eq!(queue.complete(), 0);
    }

    #[test]
    fn at_most_a_quarter_of_the_queue_is_answered_without_the_head() {
        let mut queue = SubmissionQueue::connected(8, FlowControl::Enabled);
        assert_eq!([(); 3].map(|()| queue.complete_by_data()), [true, true, false]);
        assert_eq!(queue.complete(), 3, "two unreported, and this one");
        queue.complete_silently();
        assert_eq!([(); 2].map(|()| queue.complete_by_data()), [true, false]);
        assert_eq!(queue.complete(), 6);
        let mut queue = SubmissionQueue::connected(2, FlowControl::Disabled);
        assert!((0..100).all(|_| queue.complete_by_data()));
    }

    #[test]
    fn without_flow_control_connect_says_so_and_the_rest_say_nothing() {
        let mut queue = SubmissionQueue::connected(3, FlowControl::Disabled);
        assert_eq!([(); 3].map(|()| queue.complete()), [0xffff, 0, 0]);
    }
}
