package io.helenus.agent;

/** Kinds of reads, in the order in which they are started. */
enum ReadKind
{
    /** A read of one partition that this node coordinates. It blocks a request thread. */
    POINT_LOCAL("point_local"),
    /** A read of one partition that another node coordinates. */
    POINT_REMOTE("point_remote"),
    /** A read of many partitions, whichever node coordinates it. */
    RANGE("range");

    /** The name in the counters' table. */
    final String label;

    ReadKind(String label)
    {
        this.label = label;
    }
}
