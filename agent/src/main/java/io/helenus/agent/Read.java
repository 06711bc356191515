package io.helenus.agent;

/** A read that waits, or has waited, in a {@link ReadQueue}. */
class Read
{
    final ReadKind kind;
    /** Smaller is sooner, within the kind. */
    final int priority;
    /** The most rows it may return: of two range reads, the one that may return fewer goes first. */
    final int limit;

    // Everything below belongs to the queue and is guarded by its lock.
    long sequence;
    long arrivedNanos;
    boolean waiting;
    Read older;
    Read newer;

    Read(ReadKind kind, int priority, int limit)
    {
        this.kind = kind;
        this.priority = priority;
        this.limit = limit;
    }
}
