"""Finding the end of records that no client can read: a batch with a bad checksum, say."""

from stream_leip_connectors.kafka.client import ClientFailed, Connection, TopicReader


def unreadable(connection: Connection, topic: str, partition: int, offset: int) -> int | None:
    """The last offset of the unreadable batch at an offset; None if it can be read."""
    if _readable(connection, topic, partition, offset):
        return None
    # A batch fails at each of its offsets: double the step, then halve it.
    bad, step = offset, 1
    while not _readable(connection, topic, partition, bad + step):
        bad, step = bad + step, 2 * step
    good = bad + step
    while good - bad > 1:
        middle = (bad + good) // 2
        if _readable(connection, topic, partition, middle):
            good = middle
        else:
            bad = middle
    return bad


def _readable(connection: Connection, topic: str, partition: int, offset: int) -> bool:
    reader = TopicReader(connection)
    try:
        if offset >= reader.bounds(topic, [partition])[partition][1]:
            return True
        reader.start(topic, {partition: offset})
        while reader.position(partition) <= offset:
            if reader.poll(0.5):
                break
    except ClientFailed as error:
        if error.meaning == "corrupt":
            return False
        raise
    finally:
        reader.close()
    return True
