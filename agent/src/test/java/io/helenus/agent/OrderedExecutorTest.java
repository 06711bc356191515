package io.helenus.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;

import org.apache.cassandra.concurrent.DebuggableTask.RunningDebuggableTask;
import org.apache.cassandra.concurrent.ExecutorLocals;
import org.apache.cassandra.concurrent.ExecutorPlus;
import org.apache.cassandra.concurrent.LocalAwareExecutorPlus;
import org.apache.cassandra.concurrent.SharedExecutorPool;
import org.apache.cassandra.service.ClientWarn;
import org.apache.cassandra.utils.WithResources;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Tests with Cassandra's own executor, as used by the READ stage. */
class OrderedExecutorTest
{
    private static final AtomicInteger NAMES = new AtomicInteger();

    private final SharedExecutorPool pool = new SharedExecutorPool("test");
    private final AtomicInteger resized = new AtomicInteger();
    private LocalAwareExecutorPlus stage;
    private OrderedExecutor ordered;
    private ReadQueue queue;

    /** A task that carries its own classification. */
    private static final class Work implements Runnable
    {
        final ReadKind kind;
        final Runnable body;

        Work(ReadKind kind, Runnable body)
        {
            this.kind = kind;
            this.body = body;
        }

        @Override
        public void run()
        {
            body.run();
        }
    }

    private static final OrderedExecutor.Kinds KINDS = new OrderedExecutor.Kinds()
    {
        @Override
        public ReadTask describe(Runnable task, WithResources surroundings, int clientPriority)
        {
            ReadKind kind = task instanceof Work ? ((Work) task).kind : ReadKind.POINT_LOCAL;
            return new ReadTask(kind, clientPriority, 0, task, surroundings);
        }

        @Override
        public String text(Runnable task)
        {
            return "a " + ((Work) task).kind;
        }
    };

    private void start(int threads)
    {
        stage = pool.newExecutor(threads, resized::set, "test", "ReadStage" + NAMES.incrementAndGet());
        queue = new ReadQueue(3_600_000_000_000L, 2);
        ordered = new OrderedExecutor(stage, queue, KINDS);
    }

    @AfterEach
    void stop() throws Exception
    {
        pool.shutdownAndWait(10, TimeUnit.SECONDS);
    }

    private static void await(CountDownLatch latch)
    {
        try
        {
            assertTrue(latch.await(20, TimeUnit.SECONDS), "in time");
        }
        catch (InterruptedException e)
        {
            throw new AssertionError(e);
        }
    }

    /** Occupies a thread of the stage until the returned latch opens. */
    private CountDownLatch occupy()
    {
        CountDownLatch running = new CountDownLatch(1);
        CountDownLatch release = new CountDownLatch(1);
        ordered.execute(new Work(ReadKind.RANGE, () -> { running.countDown(); await(release); }));
        await(running);
        return release;
    }

    @Test
    void pointsOvertakeWaitingRanges()
    {
        start(1);
        CountDownLatch release = occupy();
        List<String> order = new ArrayList<>();
        CountDownLatch ended = new CountDownLatch(6);
        for (int i = 0; i < 2; i++)
            for (ReadKind kind : new ReadKind[] { ReadKind.RANGE, ReadKind.POINT_REMOTE, ReadKind.POINT_LOCAL })
            {
                String name = kind.label + i;
                ordered.execute(new Work(kind, () -> { order.add(name); ended.countDown(); }));
            }
        assertEquals(6, ordered.getPendingTaskCount());
        assertEquals(1, ordered.getActiveTaskCount());
        release.countDown();
        await(ended);
        assertEquals(List.of("point_local0", "point_local1", "point_remote0", "point_remote1", "range0", "range1"),
                     order);
    }

    @Test
    void manyThreadsLoseNothingAndRunNothingTwice() throws Exception
    {
        start(4);
        int submitters = 6, each = 20_000;
        AtomicIntegerArray runs = new AtomicIntegerArray(submitters * each);
        CountDownLatch ended = new CountDownLatch(submitters * each);
        long seed = System.nanoTime();
        System.out.println("OrderedExecutorTest: seed " + seed);
        List<Thread> threads = new ArrayList<>();
        for (int s = 0; s < submitters; s++)
        {
            int first = s * each;
            Random random = new Random(seed + s);
            Thread thread = new Thread(() -> {
                for (int i = first; i < first + each; i++)
                {
                    int number = i;
                    Work work = new Work(ReadKind.values()[random.nextInt(3)], () -> {
                        runs.incrementAndGet(number);
                        ended.countDown();
                    });
                    switch (random.nextInt(4))
                    {
                        case 0: ordered.maybeExecuteImmediately(work); break;
                        case 1: ordered.submit(work); break;
                        case 2: ordered.execute(WithResources.none(), work); break;
                        default: ordered.execute(work); break;
                    }
                    // The pool changes its size meanwhile, as nodetool can do.
                    if (i % 5000 == 0)
                        ordered.setMaximumPoolSize(1 + random.nextInt(6));
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads)
            thread.join();
        await(ended);
        for (int i = 0; i < submitters * each; i++)
            assertEquals(1, runs.get(i), "task " + i);
        assertNull(queue.take(System.nanoTime()));
        assertEquals(0, ordered.getPendingTaskCount());
        assertEquals(resized.get(), ordered.getMaximumPoolSize());
    }

    /** If the stage lets the submitting thread run its token at once, that thread runs its own task. */
    @Test
    void aCallerThatMayRunRunsItsOwnTask()
    {
        List<Runnable> tokens = new ArrayList<>();
        List<String> ran = new ArrayList<>();
        ordered = inFrontOf((method, token) -> {
            if (method.equals("execute"))
                tokens.add(token);
            else
                token.run();
        });
        ordered.execute(new Work(ReadKind.POINT_LOCAL, () -> ran.add("waiting point")));
        ordered.maybeExecuteImmediately(new Work(ReadKind.RANGE, () -> ran.add("own range")));
        assertEquals(List.of("own range"), ran);
        tokens.remove(0).run();
        assertEquals(List.of("own range", "waiting point"), ran);
        assertNull(queue.take(0));
    }

    /** A stage of which only the two submission methods are used. */
    private OrderedExecutor inFrontOf(BiConsumer<String, Runnable> stage)
    {
        ExecutorPlus proxy = (ExecutorPlus) Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] { ExecutorPlus.class }, (self, method, arguments) -> {
                stage.accept(method.getName(), (Runnable) arguments[0]);
                return null;
            });
        queue = new ReadQueue(3_600_000_000_000L, 2);
        return new OrderedExecutor(proxy, queue, KINDS);
    }

    /** A token may run another submitter's task; the task must see its own context, even an empty one. */
    @Test
    void everyTaskKeepsItsOwnSurroundings()
    {
        start(1);
        CountDownLatch release = occupy();
        CountDownLatch ended = new CountDownLatch(4);
        List<String> seen = new ArrayList<>();
        // The first token belongs to the range, which captures warnings; the point that runs on it does not.
        ClientWarn.instance.captureWarnings();
        ExecutorLocals capturing = ExecutorLocals.current();
        ordered.execute(surroundings(ReadKind.RANGE, "range", seen, ended));
        ordered.execute(capturing, surroundings(ReadKind.RANGE, "with", seen, ended));
        ExecutorLocals.clear();
        ordered.execute(surroundings(ReadKind.POINT_LOCAL, "point", seen, ended));
        ordered.submit(surroundings(ReadKind.POINT_LOCAL, "submitted", seen, ended));
        release.countDown();
        await(ended);
        assertEquals(List.of("point: none", "submitted: none", "range: some", "with: some"), seen);
    }

    private static Runnable surroundings(ReadKind kind, String name, List<String> seen, CountDownLatch ended)
    {
        return new Work(kind, () -> {
            seen.add(name + (ExecutorLocals.current().clientWarnState == null ? ": none" : ": some"));
            ended.countDown();
        });
    }

    @Test
    void runningTasksAreShown()
    {
        start(1);
        CountDownLatch release = occupy();
        List<String> shown = new ArrayList<>();
        for (RunningDebuggableTask task : pool.runningTasks())
        {
            shown.add(task.description());
            assertTrue(task.creationTimeNanos() <= task.startTimeNanos());
        }
        assertEquals(List.of("a RANGE"), shown);
        release.countDown();
    }

    @Test
    void aTaskThatFailsHarmsNoOther() throws Exception
    {
        start(1);
        AtomicInteger handled = new AtomicInteger();
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> handled.incrementAndGet());
        try
        {
            CountDownLatch ended = new CountDownLatch(1);
            ordered.execute(new Work(ReadKind.POINT_LOCAL, () -> { throw new IllegalStateException("on purpose"); }));
            ordered.execute(new Work(ReadKind.RANGE, ended::countDown));
            await(ended);
            assertThrows(Exception.class, () -> ordered.submit((Runnable) () -> {
                throw new IllegalStateException("on purpose");
            }).get(10, TimeUnit.SECONDS));
            assertEquals("result", ordered.submit(() -> "result").get(10, TimeUnit.SECONDS));
            assertTrue(handled.get() >= 1, "told to the thread's handler, as without the agent");
        }
        finally
        {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }

    @Test
    void shutdownGivesTheWaitingTasksBack()
    {
        start(1);
        CountDownLatch release = occupy();
        List<Runnable> waiting = new ArrayList<>();
        AtomicBoolean ran = new AtomicBoolean();
        for (int i = 0; i < 10; i++)
        {
            Work work = new Work(ReadKind.values()[i % 3], () -> ran.set(true));
            waiting.add(work);
            ordered.execute(work);
        }
        List<Runnable> abandoned = ordered.shutdownNow();
        assertEquals(10, abandoned.size());
        assertTrue(abandoned.containsAll(waiting));
        assertTrue(ordered.isShutdown());
        assertNull(queue.take(0));
        release.countDown();
        assertTrue(!ran.get());
    }

    /** A stage that rejects the first token, immediately or only after another token has run its task. */
    @Test
    void refusedTasksAreNotKept()
    {
        ConcurrentLinkedQueue<Runnable> tokens = new ConcurrentLinkedQueue<>();
        AtomicReference<Runnable> beforeRefusal = new AtomicReference<>();
        ordered = inFrontOf((method, token) -> {
            Runnable first = beforeRefusal.getAndSet(null);
            if (first == null)
            {
                tokens.add(token);
                return;
            }
            first.run();
            throw new RejectedExecutionException("on purpose");
        });
        List<String> ran = new ArrayList<>();
        beforeRefusal.set(() -> { });
        assertThrows(RejectedExecutionException.class,
                     () -> ordered.execute(new Work(ReadKind.RANGE, () -> ran.add("refused"))));
        assertNull(queue.take(0));

        ordered.execute(new Work(ReadKind.RANGE, () -> ran.add("range")));
        // The point is accepted, because it runs on the range's token; then the stage rejects the point's own.
        beforeRefusal.set(() -> tokens.remove().run());
        ordered.execute(new Work(ReadKind.POINT_LOCAL, () -> ran.add("point")));
        assertEquals(List.of("point", "range"), ran);
        assertTrue(tokens.isEmpty());
        assertNull(queue.take(0));
    }
}
