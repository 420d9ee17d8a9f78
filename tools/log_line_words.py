"""What each log line means and what to do, for docs/reference/log-lines.md. By logger and text; `…` is a field.

A line without an entry fails a test, and so does an entry without a line. No advice: you need not do anything.
"""

from __future__ import annotations

from typing import Final

DAMAGE: Final = (
    "Bytes of a segment were altered, cut or removed. The line names the file, the position and the "
    "first offset that is concerned. Another replica sends the records again, if there is one."
)
DAMAGE_ADVICE: Final = (
    "Check the disk. With a single replica, see [data directories](storage.md): restore the file, "
    "or give the records up."
)
NOT_HANDED_OVER: Final = "The node stops while it still leads. Clients wait for a few seconds until others lead."
LOSS: Final = (
    "A query with `failOnDataLoss=false` goes on without records that the topic no longer has. The "
    "line names the partition and the offsets."
)
LOSS_ADVICE: Final = "Raise `retention.ms`, or run the query more often."
LAG_HIDDEN: Final = "The query runs, but its position could not be committed for consumer groups to show."
LAG_ADVICE: Final = "Allow the query's principal READ on its group; the line has the broker's error."
REFUSED: Final = (
    "{}. The line names the peer and the reason. Of one peer and reason the 1st, 10th, 100th and so on are logged."
)
ALARMS: Final[dict[str, tuple[str, str]]] = {
    "certificate": (
        ("A certificate expires within 14 days, or a new file cannot be used. The node keeps the old certificate."),
        "Replace the certificate or correct the file; the node reads it by itself.",
    ),
    "clock-jump": (
        (
            "The clock of the machine jumped. After a jump forward, expiry goes by the time before for up to 24 h. "
            "After a jump back, records are kept for longer."
        ),
        "Set the clock if it is wrong, and check the time service of the machine.",
    ),
    "damaged-log": (
        DAMAGE,
        DAMAGE_ADVICE,
    ),
    "descriptors": (
        "The process is near its limit of open files.",
        "Raise the limit (`LimitNOFILE` in the systemd unit, `ulimit -n`) and restart the node.",
    ),
    "disk-full": (
        "The disk has no space. Replicas of this node stop following, and others lead.",
        "Free space, add space, or shorten the retention of large topics.",
    ),
    "disk-hung": (
        ("A write or a sync takes longer than `chronik.disk.hang.timeout.ms`. The node gives its leaderships up."),
        "Check the disk. If it never answers, detach the volume or restart the machine.",
    ),
    "signing-keys": (
        "The keys of the OAUTHBEARER provider cannot be read. The node keeps those that it has.",
        "Check the address of the provider and the network; the node tries again by itself.",
    ),
    "stray-log": (
        "A directory of a partition does not belong to this node. It was moved aside.",
        "If you need its records, copy it away before `chronik.stray.retention.ms` is over.",
    ),
}
WORDS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "chronik": {
        "cannot start: …": (
            "The node ends with exit code 2. Another start would most likely fail in the same way.",
            "Do what the line says.",
        ),
        "stopping": (
            "The node was asked to stop. It transfers leaderships and syncs its files.",
            "",
        ),
        "stopping before the node was ready": (
            "The node was asked to stop while it started.",
            "",
        ),
    },
    "chronik.alarms": {
        "…: more than …; the others are counted, not listed": (
            "An alarm concerns more logs or files than are listed. `chronik_alarms_total` counts them all.",
            "Look for a common cause, such as a disk.",
        ),
        "…: …": (
            "An alarm was raised. The first field is its cause.",
            "See [Alarms](#alarms).",
        ),
        "…: … (reported … times)": (
            "The condition of an alarm is over.",
            "",
        ),
    },
    "chronik.authorizer": {
        "…": (
            (
                "An object of JSON: an action that was denied, or one that changes the cluster, with principal, "
                "host, operation, resource and the rule that decided."
            ),
            "If a denied action should be allowed, `chronik acl explain` shows why it is not.",
        ),
    },
    "chronik.broker": {
        "aborted transactions of … cannot be read: …": (
            "The index of aborted transactions is built again from the log, and the log cannot be read.",
            "Look for an alarm `damaged-log` or `disk-full`. The next fetch tries again.",
        ),
        "heartbeat not delivered: …": (
            "No controller heard this node. After `broker.session.timeout.ms` it is fenced.",
            "If it goes on, `chronik cluster status` shows which voters are missing.",
        ),
        "heartbeat refused: …": (
            "The controller refuses the heartbeat for the reason that it names.",
            "If it goes on, run `chronik doctor`.",
        ),
        "leadership was not returned to preferred leaders: …": (
            "The controller tries again after `leader.imbalance.check.interval.seconds`.",
            "",
        ),
        "not registered yet: …": (
            (
                "The node starts, and the controller does not take it yet: none is elected, or an earlier "
                "process of the node still counts as alive."
            ),
            "If it goes on, make sure that no other process runs with this `node.id`.",
        ),
        "stopping without transferring leadership: it took more than … s": (
            NOT_HANDED_OVER,
            "",
        ),
        "stopping without transferring leadership: …": (
            NOT_HANDED_OVER,
            "",
        ),
        "stopping: …": (
            (
                "The node cannot go on, acknowledges nothing more, and ends with exit code 1. A traceback "
                "follows if the cause may be a defect of Chronik."
            ),
            (
                "Do what the line says. If it names an invariant, report it: see [report a "
                "bug](../how-to/report-a-bug.md)."
            ),
        ),
        (
            "this node has lost its metadata and waits for a controller: start the other voters; "
            "if a majority has lost it, see docs/how-to/quorum-lost.md"
        ): (
            "The node is a voter by its configuration, but holds no metadata. It cannot vote before it has caught up.",
            ("Start the other voters. If most of them say the same, see [a quorum is lost](../how-to/quorum-lost.md)."),
        ),
        "this node waits to be added to a quorum: run `chronik cluster add …@HOST:…`": (
            "The node is not a member of the quorum that it was pointed at.",
            "Run the command, with the host by which other nodes reach this one.",
        ),
        "… cannot be read and will be rewritten": (
            (
                "The file with the time at which the node was last alive is damaged. A jump of the clock since "
                "then is not noticed."
            ),
            "Check the clock of the machine once.",
        ),
    },
    "chronik.broker.admin": {
        "the admin listener cannot use …: …; set chronik.admin.listener, or `none`": (
            ("The default address of the admin listener is in use. The node runs without /metrics and /status."),
            "Set `chronik.admin.listener` to a free address.",
        ),
        "… … refused: ……": (
            REFUSED.format("A request on the admin listener was refused"),
            "Correct the program there.",
        ),
    },
    "chronik.broker.authorizer": {
        "brought … first access rules": (
            "Rules that `chronik init` wrote now hold in the cluster.",
            "",
        ),
    },
    "chronik.broker.certificates": {
        "listener … uses new certificates: subject …": (
            "New connections use the new files.",
            "",
        ),
    },
    "chronik.broker.configs": {
        "unknown setting … set at run time…": (
            "A client set a key that Chronik does not know. It is kept and changes nothing.",
            "Correct the name: see [configuration](configuration.md).",
        ),
    },
    "chronik.broker.connection": {
        "closing … on …: …": (
            (
                "The node ended a connection. At INFO it was idle; at WARNING the client broke a rule or a "
                "limit; at ERROR a handler failed, and a traceback follows."
            ),
            "At WARNING check the client at that address. At ERROR report it as a bug.",
        ),
    },
    "chronik.broker.sasl": {
        "brought the first users: …": (
            "Users that were formatted into the directory now exist in the cluster.",
            "",
        ),
        "… at … changed SCRAM credentials of …": (
            "A password was set or removed.",
            "",
        ),
        "… at … created delegation token … of …": (
            "A token was created.",
            "",
        ),
        "… at … … delegation token …": (
            "A token was renewed or expired by a client.",
            "",
        ),
        "… … refused: ……": (
            REFUSED.format("A login failed"),
            "Correct the user or password there. Many from one address may be an attack.",
        ),
    },
    "chronik.broker.settings": {
        "anyone who can connect to … can control this cluster: set … on every node": (
            "The quorum port is open to other machines and asks for no secret.",
            "Set `chronik.quorum.secret.file` on every node.",
        ),
        "ignored although set at run time: …": (
            "A setting that was accepted earlier cannot be used by this node. Its earlier value holds.",
            "Set it again, or delete it with `chronik config unset`.",
        ),
        "of the directories in log.dirs only … is used: run a node for each disk": (
            "A node uses one directory.",
            "Name one directory in `log.dirs`.",
        ),
        (
            "other nodes connect to … as …, which is not in …: they replicate only if an ACL allows it "
            "CLUSTER_ACTION on the cluster, best for their hosts alone"
        ): (
            "With an authorizer, nodes without a login need a rule to replicate.",
            "Give nodes a login and name it in `super.users`, or add the rule.",
        ),
        "unknown setting … in …: …": (
            "A key in the configuration is not known. It changes nothing.",
            "Correct or remove it.",
        ),
        "….file: other users of this machine can read …: run `chmod 600 …`": (
            "The quorum secret is readable by others.",
            "Run the command; if others may have read it, change the secret.",
        ),
        (
            "…: PLAIN sends passwords, and this listener does not encrypt them: use SASL_SSL or "
            "SCRAM-SHA-512, unless you trust every machine on the network"
        ): (
            "Passwords cross the network in clear text.",
            "Change the listener's protocol or mechanism.",
        ),
        "…=…: everybody who can connect to … may do everything": (
            "`super.users` names the principal of connections without a login.",
            "Remove it, unless only trusted machines reach the listener.",
        ),
    },
    "chronik.broker.share": {
        "could not send … of group … to broker …: …": (
            "A request about the state of a share group got no answer. It is sent again for 20 seconds.",
            "If it goes on, start the missing nodes.",
        ),
        "share partition … ends here: another leader or another state took over (…)": (
            "The leadership moved, or an operator set the group's offsets. Members fetch from the new leader.",
            "",
        ),
        "the state of share partition … was not written: …": (
            "Acknowledgements of a share group could not be stored. Their members hold the records as before.",
            "If it goes on, look at `__share_group_state` with `chronik topic describe`.",
        ),
    },
    "chronik.broker.telemetry": {
        "the metrics subscription … is not used: …": (
            "A subscription for client metrics is invalid. An older release had accepted it.",
            "Set it again with `kafka-client-metrics.sh`, or delete it.",
        ),
    },
    "chronik.broker.transactions": {
        "broker … did not answer for … transaction markers: …": (
            "The coordinator sends the markers again.",
            "",
        ),
        "cannot find out why markers for …-… are refused: …": (
            ("A marker was refused, and the partition's leader cannot be asked about it. The coordinator tries again."),
            "",
        ),
        "could not ask broker … about …: …": (
            (
                "A partition asks for the state of transactions before it takes records, and the coordinator "
                "did not answer. Producers repeat their requests."
            ),
            "If it goes on, check the network between the nodes.",
        ),
        "marker of producer … (…) for …-… was refused by broker …: …": (
            "Usually the leader has moved. The coordinator sends the marker again.",
            "",
        ),
        "partition …-… does not exist: the transaction of … needs no marker there": (
            "The topic was deleted while a transaction wrote to it.",
            "",
        ),
        (
            "partition …-… knows coordinator epoch … of producer …, but the coordinator's is …: somebody "
            "sent a marker with an epoch of its own; the transaction is ended with the epoch that the "
            "partition knows"
        ): (
            "A program with CLUSTER_ACTION, such as kafka-transactions.sh, ended a transaction by hand.",
            "",
        ),
        ("partition …-…: a transaction of producer … was open from offset … on, and no coordinator knows it: …"): (
            "Consumers of committed records waited at this offset. The node aborts the transaction.",
            "If it happens often, check for clients that skip the coordinator.",
        ),
        "transactions may hang on this node, but broker … cannot be asked: …": (
            "The node looks for hanging transactions and tries again later.",
            "",
        ),
    },
    "chronik.console": {
        "a look at the cluster failed": (
            "The console's view is not renewed. A traceback follows.",
            "Report it as a bug.",
        ),
        "a survey of the topics failed": (
            "Sizes and rates are not renewed. A traceback follows.",
            "Report it as a bug.",
        ),
        "… … failed": (
            "A request to the console got status 500. A traceback follows.",
            "Report it as a bug.",
        ),
    },
    "chronik.coordinator": {
        "a write of … records to partition … failed: …": (
            "The coordinator could not write its state. The client hears of it and repeats its request.",
            "If it goes on, look at the partition's replicas with `chronik topic describe`.",
        ),
        "partition … waits to be loaded: …": (
            "The coordinator has too few replicas in sync to be sure of its state. Its groups wait.",
            "Start the missing nodes.",
        ),
        "partition …: skipped … records of unknown types": (
            "A newer release wrote them.",
            "",
        ),
        "the commit of offset … of partition … failed: …": (
            ("A write of the coordinator was not replicated in time, or its leadership moved. The client repeats it."),
            "If it goes on, start the missing nodes.",
        ),
    },
    "chronik.coordinator.groups": {
        "group …: its new state was not written: …": (
            "The group's rebalance was not stored; its members join again.",
            "If it goes on, look at `__consumer_offsets` with `chronik topic describe`.",
        ),
        "group …: member … is removed: …": (
            "The coordinator removed a member. Its partitions go to others. The line says why.",
            "",
        ),
        "group …: member … was silent for its session time-out": (
            "No heartbeat arrived in time. The member's partitions go to others.",
            "If the consumer is alive, raise its `session.timeout.ms` or find what stops it.",
        ),
        "group …: no state for some of its partitions yet: …": (
            "Partitions of a share group cannot be read before their state is stored. It is tried again.",
            "If it goes on, look at `__share_group_state` with `chronik topic describe`.",
        ),
        "group …: rebalance after generation …: …": (
            "The members share the partitions again. The line says why.",
            "",
        ),
        "group …: … leaves; client reason: …": (
            "A consumer closed, or left for the reason that it sent.",
            "",
        ),
    },
    "chronik.coordinator.transactions": {
        "aborted the transaction of …: it was open for longer than its timeout of … ms": (
            "The producer ended or hangs. Its records are not shown to consumers of committed records.",
            "If the producer is alive, raise its `transaction.timeout.ms`, or commit more often.",
        ),
        "could not abort the transaction of … after its timeout: …": (
            "The coordinator tries again.",
            "",
        ),
        "removed … transactional ids unused for … ms": (
            "`transactional.id.expiration.ms` is over for them.",
            "",
        ),
    },
    "chronik.metadata": {
        "node … sent a note of … bytes that cannot be read: …": (
            "The message is dropped. The other node's release may not fit, or the network alters bytes.",
            "Compare the releases of the nodes.",
        ),
        "node … sent a note of … bytes that is not a lease": (
            "The message is dropped. The other node's release may not fit, or the network alters bytes.",
            "Compare the releases of the nodes.",
        ),
        "this node is new, or has lost its metadata: it does not vote until it has caught up": (
            "At WARNING the process ended before it had caught up, and continues.",
            "If most nodes say so, see [a lost quorum](../how-to/quorum-lost.md).",
        ),
    },
    "chronik.pipeline.events": {
        "event … of … was not recorded: …": (
            "The pipeline runs. Its history in the events topic lacks one entry.",
            "Allow the pipeline's principal WRITE on the topic, or start the missing nodes.",
        ),
    },
    "chronik.pipeline.groups": {
        "the lag of query … will not show in consumer groups: …": (
            LAG_HIDDEN,
            LAG_ADVICE,
        ),
        "the lag of this query will not show in consumer groups: …": (
            LAG_HIDDEN,
            LAG_ADVICE,
        ),
    },
    "chronik.pipeline.materialize": {
        "table of …: …": (
            "The query that writes the table ended. It is started again after a pause.",
            "",
        ),
        "… is …: …": (
            "The table has failed or is suspended. The line says why.",
            "Correct the cause. [Error codes](error-codes.md#conditions-of-pipelines) explains its name.",
        ),
    },
    "chronik.pipeline.planning": {
        "…": (
            LOSS,
            LOSS_ADVICE,
        ),
    },
    "chronik.pipeline.reading": {
        "…": (
            LOSS,
            LOSS_ADVICE,
        ),
    },
    "chronik.pipeline.tables.maintenance": {
        "the table at … was not compacted and vacuumed: …": (
            "The batch is committed. A later batch tries again.",
            "If it goes on, check space and permissions of the storage.",
        ),
    },
    "chronik.raft": {
        "node … at …: connected": (
            "The quorum connection to that node is up.",
            "",
        ),
        "node … at …: …; retrying": (
            "The quorum connection to that node ended. The line is written once per outage.",
            ("If it goes on, start that node. If the two lines alternate, two processes run with one `node.id`."),
        ),
        "node … transfers quorum leadership to node …: its disk …": (
            "The disk of this node is full or does not answer.",
            "Look for an alarm `disk-full` or `disk-hung`.",
        ),
        "quorum node … stops: …": (
            "The metadata log cannot be written, or an invariant is broken. The node ends.",
            "Check the disk; report a broken invariant as a bug.",
        ),
        "two leaders in term …: …, and now …: stop one of them, and compare the nodes' state hashes": (
            (
                "Two controllers decide at the same time. A node's vote was lost with its disk, or two "
                "processes run with one `node.id`."
            ),
            "Stop one of the two nodes. `chronik cluster status` shows the state hashes.",
        ),
        "… … refused: ……": (
            REFUSED.format("A connection or message on the quorum port was refused"),
            "Check `chronik.quorum.secret.file`, the cluster id and the release of that node.",
        ),
        "…: truncated an incomplete write at byte …": (
            "The node or its machine ended during a write. Nothing that was acknowledged is lost.",
            "",
        ),
    },
    "chronik.replication": {
        "fetching from broker … failed; retrying in … ms": (
            "An error that is not known. A traceback follows.",
            "Report it as a bug.",
        ),
        "fetching from broker …: …; retrying in … ms": (
            "The leader's node cannot be reached or ended the connection.",
            "If it goes on, start that node.",
        ),
        "partition … of …: …": (
            "The replica could not take what its leader sent. At INFO it lacks space, or tries again soon.",
            "At ERROR check the disk of this node, and of the leader's.",
        ),
        "the controller did not answer; in-sync replicas are unchanged: …": (
            "A change of the in-sync replicas waits for a controller.",
            "",
        ),
        "the controller does not know yet that … replicas are lost: …": (
            "The node met damaged or lost logs and reports them until the controller has heard.",
            "At WARNING the controller refuses: the line says why.",
        ),
        "the controller does not know yet that … replicas lack space: …": (
            "The node reports them until the controller has heard.",
            "Free space: see the alarm `disk-full`.",
        ),
        "… replicas that lacked space follow their leaders again": (
            "The disk has room again.",
            "",
        ),
        "…: cannot prepare for fetching lost records again, retrying: …": (
            "A damaged log could not be cut.",
            "Check the disk.",
        ),
        "…: fetching again from broker …: …": (
            "A replica lost records and copies them from its leader.",
            "",
        ),
        "…: the controller refuses in-sync replicas …: …": (
            "The partition changed meanwhile. The leader asks again.",
            "",
        ),
        "…: … fell behind: removed from the in-sync replicas": (
            "Replicas did not fetch within `replica.lag.time.max.ms`.",
            "If they stay out, check these nodes with `chronik doctor`.",
        ),
        "…: … lost records: … to … are cut": (
            ("Committed records were lost by an unclean election, or by a power cut with `chronik.durability=os`."),
            (
                "Producers may send these records again. To rule it out, see [what acknowledged "
                "means](../explanation/acknowledged.md)."
            ),
        ),
    },
    "chronik.storage": {
        "closed without a checkpoint, so the next start takes longer: …": (
            "Nothing is lost.",
            "Check the disk.",
        ),
        "maintenance of … failed and will be retried: …": (
            "Retention or compaction met an error.",
            "Check the disk.",
        ),
        "…": (
            DAMAGE,
            DAMAGE_ADVICE,
        ),
        "… is not …: …": (
            "Retention, compaction or cutting of one log met an error.",
            "Check the disk.",
        ),
        "… was deleted: chronik.stray.retention.ms is over": (
            "A directory that was moved aside is removed.",
            "",
        ),
        "…/… …: moved to …, removed after … days": (
            "A directory that belongs to no partition of this node was moved aside.",
            "If you need its records, copy it away in time.",
        ),
        "…: truncated an incomplete write at byte …, offset …": (
            "The node or its machine ended during a write. Nothing that was acknowledged and synced is lost.",
            "",
        ),
        "…: …; aborted transactions are read again from the log": (
            "The index is rebuilt when it is needed.",
            "",
        ),
    },
    "chronik.tasks": {
        "task … failed": (
            "A task of the node met an error. A traceback follows.",
            "Report it as a bug.",
        ),
    },
    "chronik.tls": {
        "TLS handshake with … on … failed: …": (
            ("A client does not trust the certificate, sends none, or does not speak TLS. The line says which."),
            "Correct the client's trust store, key store or protocol.",
        ),
        "TLS handshakes on … failed … more times within a second: …": (
            "The same reason, counted.",
            "Correct the clients.",
        ),
    },
}
