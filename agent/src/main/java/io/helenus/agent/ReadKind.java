package io.helenus.agent;

/** What a read is, in the order in which reads are started. */
enum ReadKind
{
    /** A read of one partition that this node coordinates. Its client waits here, on a request thread. */
    POINT_LOCAL("point_local"),
    /** A read of one partition that another node coordinates. */
    POINT_REMOTE("point_remote"),
    /** A read of many partitions, whoever coordinates it. */
    RANGE("range");

    /** The name in the counters' table. */
    final String label;

    ReadKind(String label)
    {
        this.label = label;
    }
}
