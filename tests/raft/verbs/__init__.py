"""The verbs of the interaction language. Each is a function of the environment and the command, listed in VERBS."""

from tests.raft.verbs import delivery, leadership, looking, nodes, proposals, ready, ticks

VERBS = {
    "add-nodes": nodes.add_nodes,
    "campaign": leadership.campaign,
    "compact": nodes.compact,
    "deliver-msgs": delivery.deliver_messages,
    "forget-leader": leadership.forget_leader,
    "log-level": looking.log_level,
    "process-append-thread": ready.process_append_thread,
    "process-apply-thread": ready.process_apply_thread,
    "process-ready": ready.process_ready,
    "propose": proposals.propose,
    "propose-conf-change": proposals.propose_change,
    "raft-log": looking.raft_log,
    "raft-state": looking.raft_state,
    "report-unreachable": delivery.report_unreachable,
    "send-snapshot": delivery.send_snapshot,
    "set-randomized-election-timeout": ticks.set_election_timeout,
    "stabilize": ready.stabilize,
    "status": looking.status,
    "tick-election": ticks.tick_election,
    "tick-heartbeat": ticks.tick_heartbeat,
    "transfer-leadership": leadership.transfer_leadership,
}
