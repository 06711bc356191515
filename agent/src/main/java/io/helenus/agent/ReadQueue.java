package io.helenus.agent;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.TreeSet;

/**
 * Which read starts next: points before ranges, as at a counter where whoever has one question is
 * served before those who order for a whole office.
 *
 * <p>Order: kind, then the client's priority, then (ranges only) the row limit, then arrival. So that
 * nothing starves: a read that has waited longer than {@code waitMaxNanos} is <em>due</em>, and while
 * some read is due, at least every {@code dueEvery}-th start is that of the oldest one. With 1, due
 * reads go before all others, and an overloaded node is back at first come, first served. With 2, half
 * of the starts keep the order above, whatever the overload.
 *
 * <p>The classes and their order are those of Fukuda et al. (prioritised single-key reads); ageing is not.
 *
 * <p>A tree and a list for each kind, one lock: all operations take logarithmic time and nothing that
 * has left is kept. Time is an argument, so tests replay exactly.
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
    /** Starts since a due read went first. */
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

    /** The read that is to start now; null if none waits. */
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

    /** Starts {@code own} if it still waits, whatever its place; else whichever is to start now. */
    synchronized Read takeThis(Read own, long nowNanos)
    {
        if (!own.waiting)
            return take(nowNanos);
        start(own, nowNanos, false);
        return own;
    }

    /** Takes back a read that never was to be. False if it has been started. */
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
            // First, since it is the step that can fail, for want of memory.
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

    /** What has happened to the reads of one kind since the node started. */
    static final class Counters
    {
        final ReadKind kind;
        /** Waiting now. */
        final int waiting;
        final long started;
        /** Of these: went first because they were the oldest and had waited too long. */
        final long due;
        /** Of these: started while an older read of another kind went on waiting. */
        final long overtook;
        /** Of these: carried a priority other than 0 from the client. */
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
