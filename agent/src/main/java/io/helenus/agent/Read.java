package io.helenus.agent;

/** A read that is, or was, waiting in a {@link ReadQueue}. */
class Read
{
    final ReadKind kind;
    /** Smaller goes first, within the kind. */
    final int priority;
    /** Maximum number of rows: of two range reads, the one with fewer goes first. */
    final int limit;

    // All fields below belong to the queue and are guarded by its lock.
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
