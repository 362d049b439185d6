"""Stacks of processes, in the forms in which they are dumped."""

from __future__ import annotations

from deployment import reading

PY_SPY = """Process 42: /usr/bin/python serve --node-rank 1
Python v3.12.3 (/usr/bin/python3.12)

Thread 42 (idle): "MainThread"
    _create_c10d_store (torch/distributed/rendezvous.py:199)
    init_process_group (torch/distributed/distributed_c10d.py:1892)
    main (serve.py:3)
Thread 43 (active): "Thread-1"
    all_reduce (torch/distributed/x.py:1)
"""

FAULTHANDLER = """Fatal Python error: Segmentation fault

Thread 0x00007f1 (most recent call first):
  File "/usr/lib/threading.py", line 320 in wait

Current thread 0x00007f2 (most recent call first):
  File "/v/torch/distributed/distributed_c10d.py", line 2169 in _new_process_group_helper
  File "/v/serve.py", line 3 in main
"""


def test_the_main_thread_says_where_a_process_stands() -> None:
    (stack,) = reading(PY_SPY).stacks
    assert stack.title.startswith("/usr/bin/python serve")
    assert stack.place is not None
    assert stack.place.name == "store"
    assert len(stack.frames) == 3


def test_the_current_thread_of_a_crash_is_the_one_that_counts() -> None:
    found = reading(FAULTHANDLER)
    assert [stack.place.name for stack in found.stacks if stack.place] == ["connect"]
    assert [event.line.number for event in found.events] == [1]


def test_connections_and_hosts() -> None:
    text = (
        "### sockets b\nState Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"
        'SYN-SENT 0      1      10.0.0.2:46484 10.0.0.1:29501 users:(("x",pid=1,fd=8))\n'
        "ESTAB 0      0      [::ffff:10.0.0.2]:38062 [::ffff:10.0.0.1]:29501\n"
    )
    sockets = reading(text).sockets
    assert [(each.host, each.state, each.peer) for each in sockets] == [
        ("b", "SYN-SENT", "10.0.0.1:29501"),
        ("b", "ESTAB", "[::ffff:10.0.0.1]:29501"),
    ]


def test_a_cluster_status_counts_its_nodes() -> None:
    text = "======== Autoscaler status: 2026-11-30 ========\nActive:\n 1 node_43074658fe\n 1 node_fb2ffab8d3\nPending:\n"
    assert reading(text).nodes_in_cluster == 2
