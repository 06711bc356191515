package io.helenus.agent;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;

import org.apache.cassandra.concurrent.DebuggableTask;
import org.apache.cassandra.concurrent.DebuggableTask.RunnableDebuggableTask;
import org.apache.cassandra.concurrent.ExecutionFailure;
import org.apache.cassandra.concurrent.ExecutorLocals;
import org.apache.cassandra.concurrent.ExecutorPlus;
import org.apache.cassandra.concurrent.LocalAwareExecutorPlus;
import org.apache.cassandra.concurrent.TaskFactory;
import org.apache.cassandra.utils.WithResources;
import org.apache.cassandra.utils.concurrent.Future;
import org.apache.cassandra.utils.concurrent.RunnableFuture;

/**
 * Puts another queue in front of the READ stage's own executor.
 *
 * <p>A task goes into the {@link ReadQueue}, and a token for it into the executor, whose threads, limits,
 * metrics and JMX bean are unchanged. When a token is executed, it runs the task that is next in the queue.
 * So there are as many tokens as tasks, and a token finds a task unless one was removed.
 */
final class OrderedExecutor implements LocalAwareExecutorPlus
{
    /** Classifies tasks. */
    interface Kinds
    {
        ReadTask describe(Runnable task, WithResources surroundings, int clientPriority);

        String text(Runnable task);
    }

    private final ExecutorPlus stage;
    private final ReadQueue queue;
    private final Kinds kinds;
    private final TaskFactory tasks = TaskFactory.localAware();

    OrderedExecutor(ExecutorPlus stage, ReadQueue queue, Kinds kinds)
    {
        this.stage = stage;
        this.queue = queue;
        this.kinds = kinds;
    }

    @Override
    public void execute(Runnable task)
    {
        enqueue(task, ExecutorLocals.current(), false);
    }

    @Override
    public void execute(WithResources resources, Runnable task)
    {
        // Not `propagate`, which omits an empty context: the token's own context would show through.
        WithResources all = resources instanceof ExecutorLocals ? resources : ExecutorLocals.current().and(resources);
        enqueue(task, all, false);
    }

    @Override
    public void maybeExecuteImmediately(Runnable task)
    {
        enqueue(task, ExecutorLocals.current(), true);
    }

    private void enqueue(Runnable task, WithResources surroundings, boolean mayRunHere)
    {
        ReadTask read = kinds.describe(task, surroundings, ClientPriority.current());
        Token token = new Token();
        queue.add(read, System.nanoTime());
        try
        {
            if (!mayRunHere)
            {
                stage.execute(token);
                return;
            }
            // If a thread is free, the caller runs its own task, as without the agent.
            token.caller = Thread.currentThread();
            token.own = read;
            try
            {
                stage.maybeExecuteImmediately(token);
            }
            finally
            {
                token.caller = null;
                token.own = null;
            }
        }
        catch (Throwable refused)
        {
            if (queue.remove(read))
                throw refused;
            // Another token has already run this task, and its own task is left without a token.
            try
            {
                token.run();
            }
            catch (Throwable failed)
            {
                ExecutionFailure.handle(failed);
            }
        }
    }

    private <T> Future<T> enqueued(RunnableFuture<T> future)
    {
        enqueue(future, ExecutorLocals.current(), false);
        return future;
    }

    @Override
    public <T> Future<T> submit(Callable<T> task)
    {
        return enqueued(tasks.toSubmit(task));
    }

    @Override
    public <T> Future<T> submit(Runnable task, T result)
    {
        return enqueued(tasks.toSubmit(task, result));
    }

    @Override
    public Future<?> submit(Runnable task)
    {
        return enqueued(tasks.toSubmit(task));
    }

    @Override
    public <T> Future<T> submit(WithResources resources, Callable<T> task)
    {
        return enqueued(tasks.toSubmit(resources, task));
    }

    @Override
    public Future<?> submit(WithResources resources, Runnable task)
    {
        return enqueued(tasks.toSubmit(resources, task));
    }

    @Override
    public <T> Future<T> submit(WithResources resources, Runnable task, T result)
    {
        return enqueued(tasks.toSubmit(resources, task, result));
    }

    @Override
    public void shutdown()
    {
        stage.shutdown();
    }

    /** Returns the tasks, not the tokens, that will not run: as many as the stage returned. */
    @Override
    public List<Runnable> shutdownNow()
    {
        List<Runnable> abandoned = new ArrayList<>();
        for (Runnable given : stage.shutdownNow())
        {
            // The stage returns tokens wrapped, and also tasks submitted before the agent was installed.
            Read read = queue.take(System.nanoTime());
            abandoned.add(read == null ? given : ((ReadTask) read).task);
        }
        return abandoned;
    }

    @Override
    public boolean isShutdown()
    {
        return stage.isShutdown();
    }

    @Override
    public boolean isTerminated()
    {
        return stage.isTerminated();
    }

    @Override
    public boolean awaitTermination(long timeout, TimeUnit unit) throws InterruptedException
    {
        return stage.awaitTermination(timeout, unit);
    }

    @Override
    public boolean inExecutor()
    {
        return stage.inExecutor();
    }

    @Override
    public int getCorePoolSize()
    {
        return stage.getCorePoolSize();
    }

    @Override
    public void setCorePoolSize(int size)
    {
        stage.setCorePoolSize(size);
    }

    @Override
    public int getMaximumPoolSize()
    {
        return stage.getMaximumPoolSize();
    }

    @Override
    public void setMaximumPoolSize(int size)
    {
        stage.setMaximumPoolSize(size);
    }

    @Override
    public int getActiveTaskCount()
    {
        return stage.getActiveTaskCount();
    }

    @Override
    public long getCompletedTaskCount()
    {
        return stage.getCompletedTaskCount();
    }

    @Override
    public int getPendingTaskCount()
    {
        return stage.getPendingTaskCount();
    }

    @Override
    public int getMaxTasksQueued()
    {
        return stage.getMaxTasksQueued();
    }

    @Override
    public long oldestTaskQueueTime()
    {
        return stage.oldestTaskQueueTime();
    }

    /** A token in the stage. It shows the task that it runs to {@code system_views.queries}. */
    private final class Token implements RunnableDebuggableTask
    {
        private final long createdNanos = System.nanoTime();
        /** The submitting thread while it submits, and its task. No other thread can find itself here. */
        private Thread caller;
        private Read own;
        private volatile ReadTask running;

        @Override
        public void run()
        {
            long now = System.nanoTime();
            Read read = Thread.currentThread() == caller ? queue.takeThis(own, now) : queue.take(now);
            if (read == null)
                return;
            running = (ReadTask) read;
            running.run(now);
        }

        @Override
        public long creationTimeNanos()
        {
            ReadTask read = running;
            if (read == null)
                return createdNanos;
            return read.task instanceof DebuggableTask
                 ? ((DebuggableTask) read.task).creationTimeNanos()
                 : read.arrivedNanos;
        }

        @Override
        public long startTimeNanos()
        {
            ReadTask read = running;
            if (read == null)
                return 0;
            return read.task instanceof DebuggableTask
                 ? ((DebuggableTask) read.task).startTimeNanos()
                 : read.startedNanos;
        }

        @Override
        public String description()
        {
            ReadTask read = running;
            return read == null ? "" : kinds.text(read.task);
        }
    }
}
