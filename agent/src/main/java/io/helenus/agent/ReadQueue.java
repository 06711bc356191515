package io.helenus.agent;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.TreeSet;

/**
 * Decides which read starts next: points before ranges.
 *
 * <p>Order: kind, then the client's priority, then (ranges only) the row limit, then arrival. To prevent
 * starvation, a read that has waited longer than {@code waitMaxNanos} is <em>due</em>, and while some read
 * is due, at least every {@code dueEvery}-th read started is the oldest due one. With 1, due reads go before
 * all others, and an overloaded node falls back to first come, first served. With 2, half of the starts
 * follow the order above, whatever the overload.
 *
 * <p>The classes and their order are those of Fukuda et al. (prioritised single-key reads); ageing is not.
 *
 * <p>There are a tree and a list for each kind, and one lock: all operations take logarithmic time, and
 * removed reads leave nothing behind. Time is an argument, so tests are deterministic.
 */
final class ReadQueue
{
    private static final Comparator<Read> SOONER = Comparator
        .<Read>comparingInt(read -> read.priority)
        .thenComparingInt(read -> read.limit)
        .thenComparingLong(read -> read.sequence);

    private final long waitMaxNanos;
    private final int dueEvery;
    private final Lane[] lanes = new Lane[ReadKind.values().length];
    private long arrivals;
    /** Starts since the last due read was started as such. */
    private int startsSinceDue;

    ReadQueue(long waitMaxNanos, int dueEvery)
    {
        assert waitMaxNanos >= 0 && dueEvery >= 1;
        this.waitMaxNanos = waitMaxNanos;
        this.dueEvery = dueEvery;
        this.startsSinceDue = dueEvery;
        for (int i = 0; i < lanes.length; i++)
            lanes[i] = new Lane();
    }

    synchronized void add(Read read, long nowNanos)
    {
        assert !read.waiting;
        read.sequence = arrivals++;
        read.arrivedNanos = nowNanos;
        lane(read).add(read);
    }

    /** The read to start now; null if none is waiting. */
    synchronized Read take(long nowNanos)
    {
        Read oldest = oldest();
        if (oldest == null)
            return null;
        boolean due = nowNanos - oldest.arrivedNanos > waitMaxNanos;
        Read next = due && startsSinceDue + 1 >= dueEvery ? oldest : best();
        start(next, nowNanos, due && next == oldest);
        return next;
    }

    /** Starts {@code own} if it is still waiting, whatever its position; otherwise the next read. */
    synchronized Read takeThis(Read own, long nowNanos)
    {
        if (!own.waiting)
            return take(nowNanos);
        start(own, nowNanos, false);
        return own;
    }

    /** Removes a read that was rejected. False if it has been started. */
    synchronized boolean remove(Read read)
    {
        if (!read.waiting)
            return false;
        lane(read).remove(read);
        return true;
    }

    synchronized List<Counters> counters()
    {
        List<Counters> all = new ArrayList<>();
        for (ReadKind kind : ReadKind.values())
            all.add(new Counters(kind, lanes[kind.ordinal()]));
        return all;
    }

    private void start(Read read, long nowNanos, boolean due)
    {
        Lane lane = lane(read);
        lane.remove(read);
        lane.started++;
        if (read.priority != 0)
            lane.prioritized++;
        lane.waitNanosMax = Math.max(lane.waitNanosMax, nowNanos - read.arrivedNanos);
        for (Lane other : lanes)
        {
            if (other != lane && other.oldest != null && other.oldest.sequence < read.sequence)
            {
                lane.overtook++;
                break;
            }
        }
        if (due)
        {
            lane.due++;
            startsSinceDue = 0;
        }
        else if (startsSinceDue < dueEvery)
        {
            startsSinceDue++;
        }
    }

    private Lane lane(Read read)
    {
        return lanes[read.kind.ordinal()];
    }

    private Read best()
    {
        for (Lane lane : lanes)
            if (lane.oldest != null)
                return lane.byOrder.first();
        throw new AssertionError("only asked while some read waits");
    }

    private Read oldest()
    {
        Read oldest = null;
        for (Lane lane : lanes)
            if (lane.oldest != null && (oldest == null || lane.oldest.sequence < oldest.sequence))
                oldest = lane.oldest;
        return oldest;
    }

    /** The reads of one kind: by order in a tree, by arrival in a list through the reads themselves. */
    private static final class Lane
    {
        final TreeSet<Read> byOrder = new TreeSet<>(SOONER);
        Read oldest;
        Read newest;
        long started;
        long due;
        long overtook;
        long prioritized;
        long waitNanosMax;

        void add(Read read)
        {
            // First, because this step can fail for lack of memory.
            byOrder.add(read);
            read.older = newest;
            if (newest == null)
                oldest = read;
            else
                newest.newer = read;
            newest = read;
            read.waiting = true;
        }

        void remove(Read read)
        {
            boolean was = byOrder.remove(read);
            assert was;
            if (read.older == null)
                oldest = read.newer;
            else
                read.older.newer = read.newer;
            if (read.newer == null)
                newest = read.older;
            else
                read.newer.older = read.older;
            read.older = null;
            read.newer = null;
            read.waiting = false;
        }
    }

    /** Counters of the reads of one kind since the node started. */
    static final class Counters
    {
        final ReadKind kind;
        /** Waiting now. */
        final int waiting;
        final long started;
        /** Of these: started first because they were the oldest and had waited too long. */
        final long due;
        /** Of these: started while an older read of another kind kept waiting. */
        final long overtook;
        /** Of these: had a priority other than 0 from the client. */
        final long prioritized;
        /** The longest wait so far. */
        final long waitNanosMax;

        private Counters(ReadKind kind, Lane lane)
        {
            this.kind = kind;
            waiting = lane.byOrder.size();
            started = lane.started;
            due = lane.due;
            overtook = lane.overtook;
            prioritized = lane.prioritized;
            waitNanosMax = lane.waitNanosMax;
        }
    }
}
