package io.helenus.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;

import org.junit.jupiter.api.Test;

class ReadQueueTest
{
    private static final long WAIT_MAX = 100;

    private static Read local(int priority)
    {
        return new Read(ReadKind.POINT_LOCAL, priority, Integer.MAX_VALUE);
    }

    private static Read remote()
    {
        return new Read(ReadKind.POINT_REMOTE, 0, Integer.MAX_VALUE);
    }

    private static Read range(int priority, int limit)
    {
        return new Read(ReadKind.RANGE, priority, limit);
    }

    private static void check(ReadQueue queue, long nowNanos, Read... expected)
    {
        for (int i = 0; i < expected.length; i++)
            assertSame(expected[i], queue.take(nowNanos), "start " + i);
        assertNull(queue.take(nowNanos));
    }

    private static ReadQueue.Counters of(ReadQueue queue, ReadKind kind)
    {
        return queue.counters().get(kind.ordinal());
    }

    @Test
    void kindThenPriorityThenLimitThenArrival()
    {
        ReadQueue queue = new ReadQueue(WAIT_MAX, 2);
        Read long1 = range(0, 5000), long2 = range(0, 5000), brief = range(0, 10), urgent = range(-1, 9999);
        Read far1 = remote(), far2 = remote();
        Read near1 = local(0), near2 = local(0), nearUrgent = local(Integer.MIN_VALUE), nearPatient = local(1);
        for (Read read : List.of(long1, long2, brief, urgent, far1, far2, nearPatient, near1, near2, nearUrgent))
            queue.add(read, 0);
        check(queue, 1, nearUrgent, near1, near2, nearPatient, far1, far2, urgent, brief, long1, long2);
        assertEquals(4, of(queue, ReadKind.POINT_LOCAL).overtook);
        assertEquals(2, of(queue, ReadKind.POINT_LOCAL).prioritized);
        assertEquals(2, of(queue, ReadKind.POINT_REMOTE).overtook);
        assertEquals(0, of(queue, ReadKind.RANGE).overtook);
        assertEquals(4, of(queue, ReadKind.RANGE).started);
    }

    @Test
    void everySecondStartIsADueOne()
    {
        ReadQueue queue = new ReadQueue(WAIT_MAX, 2);
        Read old1 = range(0, 9), old2 = range(0, 1);
        Read a = local(0), b = local(0), c = local(0);
        queue.add(old1, 0);
        queue.add(old2, 0);
        for (Read point : List.of(a, b, c))
            queue.add(point, WAIT_MAX);
        check(queue, WAIT_MAX + 1, old1, a, old2, b, c);
        assertEquals(2, of(queue, ReadKind.RANGE).due);
        assertEquals(WAIT_MAX + 1, of(queue, ReadKind.RANGE).waitNanosMax);
    }

    @Test
    void exactlyTheBoundIsNotYetDue()
    {
        ReadQueue queue = new ReadQueue(WAIT_MAX, 2);
        Read old = range(0, 9), point = local(0);
        queue.add(old, 0);
        queue.add(point, WAIT_MAX);
        check(queue, WAIT_MAX, point, old);
        assertEquals(0, of(queue, ReadKind.RANGE).due);
    }

    @Test
    void dueEveryStartIsFirstComeFirstServed()
    {
        ReadQueue queue = new ReadQueue(WAIT_MAX, 1);
        List<Read> arrived = new ArrayList<>();
        for (int i = 0; i < 20; i++)
        {
            Read read = i % 3 == 0 ? range(-i, i) : i % 3 == 1 ? local(i) : remote();
            arrived.add(read);
            queue.add(read, i);
        }
        check(queue, 10 * WAIT_MAX, arrived.toArray(new Read[0]));
    }

    @Test
    void takenBackIsNotStarted()
    {
        ReadQueue queue = new ReadQueue(WAIT_MAX, 2);
        Read a = local(0), b = local(0), c = local(0);
        for (Read read : List.of(a, b, c))
            queue.add(read, 0);
        assertTrue(queue.remove(b));
        assertFalse(queue.remove(b));
        assertSame(c, queue.takeThis(c, 0));
        assertSame(a, queue.takeThis(c, 0), "its own has been started, so another");
        assertNull(queue.takeThis(c, 0));
        assertFalse(queue.remove(a));
        assertEquals(2, of(queue, ReadKind.POINT_LOCAL).started);
    }

    /** Random schedules against a model that scans all reads each time. HELENUS_SEED replays one. */
    @Test
    void randomSchedules()
    {
        String given = System.getenv("HELENUS_SEED");
        long seed = given == null ? System.nanoTime() : Long.parseLong(given);
        System.out.println("ReadQueueTest: HELENUS_SEED=" + seed);
        Random random = new Random(seed);
        for (int round = 0; round < 300; round++)
            randomSchedule(random, 1 + random.nextInt(4), "HELENUS_SEED=" + seed + ", round " + round);
    }

    private static void randomSchedule(Random random, int dueEvery, String where)
    {
        ReadQueue queue = new ReadQueue(WAIT_MAX, dueEvery);
        Model model = new Model(dueEvery);
        // Sometimes more reads arrive than leave, sometimes fewer.
        int arriving = 20 + random.nextInt(60);
        long now = random.nextInt();
        int started = 0;
        int added = 0;
        for (int step = 0; step < 400; step++)
        {
            now += random.nextInt(20);
            int dice = random.nextInt(100);
            if (dice < arriving)
            {
                ReadKind kind = ReadKind.values()[random.nextInt(3)];
                int priority = kind == ReadKind.POINT_REMOTE ? 0 : random.nextInt(3) - 1;
                int limit = kind == ReadKind.RANGE ? random.nextInt(4) : Integer.MAX_VALUE;
                Read read = new Read(kind, priority, limit);
                queue.add(read, now);
                model.waiting.add(read);
                added++;
            }
            else if (dice < 97 || model.waiting.isEmpty())
            {
                Read expected = model.take(now);
                assertSame(expected, queue.take(now), where);
                started += expected == null ? 0 : 1;
            }
            else
            {
                Read read = model.waiting.get(random.nextInt(model.waiting.size()));
                if (dice == 97)
                {
                    assertTrue(queue.remove(read), where);
                    added--;
                }
                else
                {
                    assertSame(read, queue.takeThis(read, now), where);
                    model.starts(read, false);
                    started++;
                }
                model.waiting.remove(read);
            }
        }
        for (Read expected = model.take(now); expected != null; expected = model.take(now), started++)
            assertSame(expected, queue.take(now), where);
        assertNull(queue.take(now), where);
        long counted = 0;
        long due = 0;
        for (ReadQueue.Counters counters : queue.counters())
        {
            assertEquals(0, counters.waiting, where);
            counted += counters.started;
            due += counters.due;
        }
        assertEquals(added, started, where);
        assertEquals(added, counted, where);
        assertEquals(model.due, due, where);
    }

    /** A naive implementation of the rules, over a list in arrival order. */
    private static final class Model
    {
        final List<Read> waiting = new ArrayList<>();
        final int dueEvery;
        int othersInARow;
        int due;

        Model(int dueEvery)
        {
            this.dueEvery = dueEvery;
            othersInARow = dueEvery;
        }

        Read take(long now)
        {
            if (waiting.isEmpty())
                return null;
            Read oldest = waiting.get(0);
            boolean isDue = now - oldest.arrivedNanos > WAIT_MAX;
            Read next = oldest;
            if (!isDue || othersInARow < dueEvery - 1)
                next = waiting.stream()
                              .min(Comparator.<Read, ReadKind>comparing(read -> read.kind)
                                             .thenComparing(read -> read.priority)
                                             .thenComparing(read -> read.limit)
                                             .thenComparing(waiting::indexOf))
                              .get();
            starts(next, isDue && next == oldest);
            waiting.remove(next);
            return next;
        }

        void starts(Read read, boolean asDue)
        {
            othersInARow = asDue ? 0 : othersInARow + 1;
            due += asDue ? 1 : 0;
        }
    }

    /** With an endless stream of points, a range read waits at most for its bound and one more start. */
    @Test
    void nothingStarves()
    {
        ReadQueue queue = new ReadQueue(WAIT_MAX, 2);
        Read patient = range(Integer.MAX_VALUE, Integer.MAX_VALUE);
        queue.add(patient, 0);
        for (long now = 1; ; now++)
        {
            queue.add(local(Integer.MIN_VALUE), now);
            if (queue.take(now) == patient)
            {
                assertEquals(WAIT_MAX + 1, now);
                return;
            }
            assertTrue(now <= WAIT_MAX + 1, "starves");
        }
    }

    /** Prints the cost of an operation, without asserting it. */
    @Test
    void cost()
    {
        ReadQueue queue = new ReadQueue(500_000_000, 2);
        Random random = new Random(1);
        AtomicInteger sink = new AtomicInteger();
        for (int depth : new int[] { 1, 1000, 100_000 })
        {
            for (int i = 1; i < depth; i++)
                queue.add(range(0, random.nextInt(10_000)), System.nanoTime());
            int turns = 300_000;
            for (int warm = 0; warm < 2; warm++)
            {
                long begin = System.nanoTime();
                for (int i = 0; i < turns; i++)
                {
                    queue.add(i % 2 == 0 ? local(0) : range(0, i % 10_000), System.nanoTime());
                    sink.addAndGet(queue.take(System.nanoTime()).limit);
                }
                if (warm == 1)
                    System.out.printf("ReadQueueTest: %d waiting: %d ns to add and take%n",
                                      depth - 1, (System.nanoTime() - begin) / turns);
            }
            while (queue.take(System.nanoTime()) != null)
                sink.incrementAndGet();
        }
    }
}
