"""temp"""


def topic_entries(node, own):
    return []
