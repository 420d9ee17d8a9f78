"""A program with one transaction that it may not end.

    python -m tests.clients.zombie confluent BOOTSTRAP TOPIC ID

It writes half of the values, says so, waits for a line, writes the other half, and commits. drivers/java/Zombie.java
does the same with Java's client.
"""

from __future__ import annotations

import sys

from tests.clients.copier import LIBRARIES

VALUES = tuple(b"%d" % number for number in range(20))
HALF = len(VALUES) // 2
WRITTEN = "written"


def main() -> None:
    name, bootstrap, topic, transactional_id = sys.argv[1:]
    library = LIBRARIES[name](bootstrap, topic, topic, transactional_id)
    library.start()
    library.begin()
    for value in VALUES[:HALF]:
        library.send(value)
    library.flush()
    print(WRITTEN, flush=True)
    sys.stdin.readline()
    for value in VALUES[HALF:]:
        library.send(value)
    library.commit()


if __name__ == "__main__":
    main()
