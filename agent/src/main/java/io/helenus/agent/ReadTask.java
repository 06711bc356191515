package io.helenus.agent;

import org.apache.cassandra.utils.Closeable;
import org.apache.cassandra.utils.WithResources;

/** A task of the READ stage, with the context (trace, client warnings) of the submitting thread. */
final class ReadTask extends Read
{
    final Runnable task;
    private final WithResources surroundings;
    volatile long startedNanos;

    ReadTask(ReadKind kind, int priority, int limit, Runnable task, WithResources surroundings)
    {
        super(kind, priority, limit);
        this.task = task;
        this.surroundings = surroundings;
    }

    void run(long nowNanos)
    {
        startedNanos = nowNanos;
        try (@SuppressWarnings("unused") Closeable restored = surroundings.get())
        {
            task.run();
        }
    }
}
