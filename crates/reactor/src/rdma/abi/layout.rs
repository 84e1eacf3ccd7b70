//! The structs and numbers of `abi` against Debian's headers: a C program prints its own.

use super::*;
use std::env;
use std::fs;
use std::mem::{offset_of, size_of};
use std::process::{self, Command};

/// A question in C, and the answer that `abi` has built in.
struct Fact {
    question: String,
    answer: i64,
}

/// The offsets of a struct's fields, and its size if it is declared whole.
macro_rules! of {
    ($facts:ident, $ours:ident whole $theirs:literal { $($tail:tt)* }) => {
        $facts.push(Fact { question: format!("sizeof(struct {})", $theirs), answer: size_of::<$ours>() as i64 });
        of!($facts, $ours $theirs { $($tail)* });
    };
    ($facts:ident, $ours:ident $theirs:literal { $($field:ident = $name:literal),* $(,)? }) => {
        $($facts.push(Fact {
            question: format!("offsetof(struct {}, {})", $theirs, $name),
            answer: offset_of!($ours, $field) as i64,
        });
        $facts.push(Fact {
            question: format!("sizeof(((struct {} *)0)->{})", $theirs, $name),
            answer: size_of_field(|value: *const $ours| {
                // SAFETY: only the field's address is taken of memory that is ours.
                unsafe { &raw const (*value).$field }
            }) as i64,
        });)*
    };
}

fn size_of_field<S, F>(_field: impl Fn(*const S) -> *const F) -> usize {
    size_of::<F>()
}

fn facts() -> Vec<Fact> {
    let mut facts = Vec::new();
    of!(facts, EventChannel whole "rdma_event_channel" { fd = "fd" });
    of!(facts, CompletionChannel whole "ibv_comp_channel" { context = "context", fd = "fd", refcnt = "refcnt" });
    of!(facts, Ops whole "ibv_context_ops" {
        poll_cq = "poll_cq", req_notify_cq = "req_notify_cq", post_send = "post_send", post_recv = "post_recv",
    });
    of!(facts, Context "ibv_context" { device = "device", ops = "ops" });
    of!(facts, Pd whole "ibv_pd" { context = "context", handle = "handle" });
    of!(facts, Cq "ibv_cq" { context = "context" });
    of!(facts, Mr whole "ibv_mr" {
        context = "context", pd = "pd", addr = "addr", length = "length", handle = "handle", lkey = "lkey", rkey = "rkey",
    });
    of!(facts, Qp "ibv_qp" { context = "context", handle = "handle", qp_num = "qp_num" });
    of!(facts, Sge whole "ibv_sge" { addr = "addr", length = "length", lkey = "lkey" });
    of!(facts, SendWr whole "ibv_send_wr" {
        wr_id = "wr_id", next = "next", sg_list = "sg_list", num_sge = "num_sge", opcode = "opcode",
        send_flags = "send_flags", invalidate_rkey = "invalidate_rkey",
        remote_addr = "wr.rdma.remote_addr", rkey = "wr.rdma.rkey",
    });
    of!(facts, ReceiveWr whole "ibv_recv_wr" {
        wr_id = "wr_id", next = "next", sg_list = "sg_list", num_sge = "num_sge",
    });
    of!(facts, Wc whole "ibv_wc" {
        wr_id = "wr_id", status = "status", opcode = "opcode", vendor_err = "vendor_err", byte_len = "byte_len",
        invalidated_rkey = "invalidated_rkey", qp_num = "qp_num", src_qp = "src_qp", wc_flags = "wc_flags",
    });
    of!(facts, QpCap whole "ibv_qp_cap" {
        max_send_wr = "max_send_wr", max_recv_wr = "max_recv_wr", max_send_sge = "max_send_sge",
        max_recv_sge = "max_recv_sge", max_inline_data = "max_inline_data",
    });
    of!(facts, QpInit whole "ibv_qp_init_attr" {
        qp_context = "qp_context", send_cq = "send_cq", recv_cq = "recv_cq", srq = "srq", cap = "cap",
        qp_type = "qp_type", sq_sig_all = "sq_sig_all",
    });
    of!(facts, QpAttributes whole "ibv_qp_attr" { min_rnr_timer = "min_rnr_timer" });
    of!(facts, DeviceAttributes whole "ibv_device_attr" {
        max_mr_size = "max_mr_size", max_qp = "max_qp", max_qp_wr = "max_qp_wr", device_cap_flags = "device_cap_flags",
        max_sge = "max_sge", max_cq = "max_cq", max_cqe = "max_cqe", max_mr = "max_mr", max_pd = "max_pd",
        max_qp_rd_atom = "max_qp_rd_atom", max_qp_init_rd_atom = "max_qp_init_rd_atom",
    });
    of!(facts, RawId "rdma_cm_id" {
        verbs = "verbs", channel = "channel", context = "context", qp = "qp",
        source = "route.addr.src_storage", destination = "route.addr.dst_storage",
    });
    of!(facts, ConnectionParameters whole "rdma_conn_param" {
        private_data = "private_data", private_data_len = "private_data_len",
        responder_resources = "responder_resources", initiator_depth = "initiator_depth",
        flow_control = "flow_control", retry_count = "retry_count", rnr_retry_count = "rnr_retry_count",
        srq = "srq", qp_num = "qp_num",
    });
    of!(facts, RawEvent whole "rdma_cm_event" {
        id = "id", listen_id = "listen_id", event = "event", status = "status", conn = "param.conn",
    });
    let numbers = [
        ("RDMA_PS_TCP", PORT_SPACE_TCP.into()),
        ("RDMA_OPTION_ID", OPTION_ID.into()),
        ("RDMA_OPTION_ID_AFONLY", OPTION_ID_AFONLY.into()),
        ("IBV_QPT_RC", QP_RELIABLE.into()),
        ("IBV_QP_MIN_RNR_TIMER", QP_RNR_TIMER.into()),
        ("IBV_WR_RDMA_WRITE", OP_RDMA_WRITE.into()),
        ("IBV_WR_SEND", OP_SEND.into()),
        ("IBV_WR_RDMA_READ", OP_RDMA_READ.into()),
        ("IBV_WR_SEND_WITH_INV", OP_SEND_WITH_INVALIDATE.into()),
        ("IBV_SEND_SIGNALED", SEND_SIGNALED.into()),
        ("IBV_SEND_INLINE", SEND_INLINE.into()),
        ("IBV_ACCESS_LOCAL_WRITE", ACCESS_LOCAL_WRITE.into()),
        ("IBV_ACCESS_REMOTE_WRITE", ACCESS_REMOTE_WRITE.into()),
        ("IBV_ACCESS_REMOTE_READ", ACCESS_REMOTE_READ.into()),
        ("IBV_WC_WITH_INV", WC_WITH_INVALIDATE.into()),
        ("IBV_WC_SUCCESS", WC_SUCCESS.into()),
        ("IBV_WC_WR_FLUSH_ERR", WC_FLUSHED.into()),
        ("IBV_DEVICE_MEM_MGT_EXTENSIONS", DEVICE_SENDS_WITH_INVALIDATE.into()),
        ("RDMA_CM_EVENT_ADDR_RESOLVED", cm_event::ADDRESS_RESOLVED.into()),
        ("RDMA_CM_EVENT_ADDR_ERROR", cm_event::ADDRESS_ERROR.into()),
        ("RDMA_CM_EVENT_ROUTE_RESOLVED", cm_event::ROUTE_RESOLVED.into()),
        ("RDMA_CM_EVENT_ROUTE_ERROR", cm_event::ROUTE_ERROR.into()),
        ("RDMA_CM_EVENT_CONNECT_REQUEST", cm_event::CONNECT_REQUEST.into()),
        ("RDMA_CM_EVENT_CONNECT_ERROR", cm_event::CONNECT_ERROR.into()),
        ("RDMA_CM_EVENT_UNREACHABLE", cm_event::UNREACHABLE.into()),
        ("RDMA_CM_EVENT_REJECTED", cm_event::REJECTED.into()),
        ("RDMA_CM_EVENT_ESTABLISHED", cm_event::ESTABLISHED.into()),
        ("RDMA_CM_EVENT_DISCONNECTED", cm_event::DISCONNECTED.into()),
        ("RDMA_CM_EVENT_DEVICE_REMOVAL", cm_event::DEVICE_REMOVAL.into()),
    ];
    facts.extend(numbers.map(|(name, answer): (&str, i64)| Fact { question: name.to_owned(), answer }));
    facts
}

#[test]
#[cfg_attr(miri, ignore = "Miri runs no compiler")]
fn structs_and_numbers_are_those_of_the_headers() {
    let facts = facts();
    let questions: String = facts
        .iter()
        .map(|fact| format!("    printf(\"%lld\\n\", (long long)({}));\n", fact.question))
        .collect();
    let source = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n\
         int main(void) {{\n{questions}    return 0;\n}}\n"
    );
    let program = env::temp_dir().join(format!("gimbal-rdma-layout-{}", process::id()));
    let file = program.with_extension("c");
    fs::write(&file, source).expect("the folder of temporary files can be written to");
    let compiled =
        Command::new("cc").arg("-o").arg(&program).arg(&file).output().expect("cc is there, as for linking");
    assert!(
        compiled.status.success(),
        "libibverbs-dev and librdmacm-dev are needed ('make test-deps' installs them): {}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let told = Command::new(&program).output().expect("it was just compiled");
    fs::remove_file(&file).expect("it is there");
    fs::remove_file(&program).expect("it is there");
    let answers: Vec<i64> = String::from_utf8(told.stdout)
        .expect("numbers")
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    assert_eq!(answers.len(), facts.len());
    for (Fact { question, answer }, theirs) in facts.iter().zip(answers) {
        assert_eq!(*answer, theirs, "{question}: ours, and the headers'");
    }
}
