package io.helenus.agent;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryUsage;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;

import org.apache.cassandra.concurrent.ExecutorPlus;

/**
 * Measures what the node uses. Shares of time are those of the last second: cumulative counters now, compared
 * with those of a second ago.
 *
 * <p>What cannot be measured is unknown or 0, never an error. With a limit by a control group, CPU use is
 * relative to it: the part of the allowed time that the group has used, or the part of the periods in which
 * the group was stopped, whichever is more.
 */
final class ResourceSampler
{
    private static final long WINDOW_NANOS = 1_000_000_000L;
    private static final long HOST_ID_EVERY_NANOS = 2_000_000_000L;
    /** Estimating compactions looks at every table, under locks that compactions take, too. */
    private static final long COMPACTIONS_EVERY_NANOS = 10_000_000_000L;
    /** An estimate of before nobody listened says nothing. */
    private static final long COMPACTIONS_AGE_MAX_NANOS = 3 * COMPACTIONS_EVERY_NANOS;
    private static final Path PROC = Path.of("/proc");

    /** What the node itself can tell. */
    static final class Node
    {
        final ExecutorPlus read;
        final ExecutorPlus mutation;
        final Supplier<Integer> compactions;
        final Supplier<String> hostId;
        final String[] folders;

        Node(ExecutorPlus read,
             ExecutorPlus mutation,
             Supplier<Integer> compactions,
             Supplier<String> hostId,
             String[] folders)
        {
            this.read = read;
            this.mutation = mutation;
            this.compactions = compactions;
            this.hostId = hostId;
            this.folders = folders;
        }
    }

    /** Cumulative counters at one moment. */
    private static final class Moment
    {
        long nanos;
        MachineUse.Processors processors;
        CpuGroup group;
        long processNanos;
        long collectedMs;
        List<MachineUse.Device> devices;
    }

    private static final class Estimate
    {
        final int compactions;
        final long nanos = System.nanoTime();

        Estimate(int compactions)
        {
            this.compactions = compactions;
        }
    }

    private final Node node;
    private final Set<String> devices;
    private final Deque<Moment> moments = new ArrayDeque<>();
    private UUID hostId = new UUID(0, 0);
    private long hostIdNanos;
    private volatile Estimate compactions;
    private final AtomicBoolean estimating = new AtomicBoolean();
    private long compactionsNanos;
    /** It waits for locks that compactions hold; reports do not wait for it. */
    private final ThreadPoolExecutor estimator = estimator();
    private volatile Resources latest;

    ResourceSampler(Node node)
    {
        this.node = node;
        this.devices = MachineUse.devicesOf(node.folders);
        this.hostIdNanos = System.nanoTime() - HOST_ID_EVERY_NANOS;
        this.compactionsNanos = System.nanoTime() - COMPACTIONS_EVERY_NANOS;
        moments.add(moment());
    }

    /** Null before the first sample. */
    Resources latest()
    {
        return latest;
    }

    /** One thread, which ends when it has had nothing to do for a while. */
    private static ThreadPoolExecutor estimator()
    {
        ThreadPoolExecutor one = new ThreadPoolExecutor(1, 1, 60, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), task -> {
            Thread thread = new Thread(task, "helenus-agent-compactions");
            thread.setDaemon(true);
            return thread;
        });
        one.allowCoreThreadTimeOut(true);
        return one;
    }

    /** Takes a sample; called by one thread. {@code isHeard}: whether somebody wants to know it. */
    Resources sample(boolean isHeard)
    {
        Moment now = moment();
        moments.addLast(now);
        // The first that stays is at least as old as the window, if there is one.
        while (moments.size() > 2 && now.nanos - second().nanos >= WINDOW_NANOS)
            moments.removeFirst();
        Resources resources = between(moments.peekFirst(), now);
        askNode(now.nanos, isHeard);
        resources.compactionsPending = pending(now.nanos);
        resources.hostId = hostId;
        latest = resources;
        return resources;
    }

    private Moment second()
    {
        var all = moments.iterator();
        all.next();
        return all.next();
    }

    private Moment moment()
    {
        Moment moment = new Moment();
        moment.nanos = System.nanoTime();
        moment.processors = MachineUse.processors(PROC);
        moment.group = CpuGroup.read(PROC.resolve("self"));
        moment.processNanos = processNanos();
        moment.devices = MachineUse.devices(PROC, devices);
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans())
        {
            // Those that work beside the process do not stop it.
            String name = collector.getName();
            if (!name.contains("Concurrent") && !name.contains("Cycles"))
                moment.collectedMs += Math.max(0, collector.getCollectionTime());
        }
        return moment;
    }

    private static long processNanos()
    {
        var system = ManagementFactory.getOperatingSystemMXBean();
        return system instanceof com.sun.management.OperatingSystemMXBean
             ? ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime()
             : -1;
    }

    private Resources between(Moment then, Moment now)
    {
        Resources resources = new Resources();
        resources.sampledNanos = now.nanos;
        double nanos = Math.max(1, now.nanos - then.nanos);
        cpu(resources, then, now, nanos);
        resources.collectedMs = now.collectedMs;
        resources.collecting = Resources.share((now.collectedMs - then.collectedMs) * 1e6 / nanos);
        disk(resources, then, now, nanos);
        MemoryUsage heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage();
        resources.heapUsed = heap.getUsed();
        resources.heapMax = Math.max(0, heap.getMax());
        resources.readPending = node.read.getPendingTaskCount();
        resources.readActive = node.read.getActiveTaskCount();
        resources.readMax = node.read.getMaximumPoolSize();
        resources.mutationPending = node.mutation.getPendingTaskCount();
        resources.mutationActive = node.mutation.getActiveTaskCount();
        resources.mutationMax = node.mutation.getMaximumPoolSize();
        return resources;
    }

    private static void cpu(Resources resources, Moment then, Moment now, double nanos)
    {
        CpuGroup group = now.group;
        double cores = Runtime.getRuntime().availableProcessors();
        if (group != null)
            cores = Math.min(cores, group.cores);
        resources.coresMilli = (int) Math.round(cores * 1_000);
        double process = now.processNanos < 0 ? Double.NaN : (now.processNanos - then.processNanos) / nanos / cores;
        double machine = Double.NaN;
        if (then.processors != null && now.processors != null && now.processors.all > then.processors.all)
            machine = (double) (now.processors.busy - then.processors.busy)
                    / (now.processors.all - then.processors.all);
        resources.cpuProcess = Resources.share(process);
        resources.cpuMachine = Resources.share(machine);
        if (group == null)
        {
            resources.cpuNode = resources.cpuMachine == Resources.UNKNOWN ? resources.cpuProcess : resources.cpuMachine;
            return;
        }
        double used = Double.isNaN(process) ? 0 : process;
        // A limit that has just been set has nothing to be compared with.
        if (then.group != null && then.group.cores == group.cores)
        {
            if (group.usedNanos >= 0)
                used = Math.max(used, (group.usedNanos - then.group.usedNanos) / nanos / group.cores);
            long periods = group.periods - then.group.periods;
            if (periods > 0)
                used = Math.max(used, (double) (group.throttled - then.group.throttled) / periods);
        }
        resources.cpuNode = Resources.share(used);
    }

    private static void disk(Resources resources, Moment then, Moment now, double nanos)
    {
        double busiest = Double.NaN;
        for (MachineUse.Device device : now.devices)
            for (MachineUse.Device before : then.devices)
            {
                if (!device.name.equals(before.name))
                    continue;
                double busy = (device.busyMs - before.busyMs) * 1e6 / nanos;
                if (Double.isNaN(busiest) || busy > busiest)
                {
                    busiest = busy;
                    double queued = (device.queuedMs - before.queuedMs) * 1e6 / nanos;
                    resources.diskQueueMilli = (int) Math.min(Integer.MAX_VALUE, Math.max(0, Math.round(queued * 1_000)));
                }
            }
        resources.diskUse = Resources.share(busiest);
    }

    private int pending(long nowNanos)
    {
        Estimate last = compactions;
        // One that takes long waits for compactions: there are some, as many as before for all that is known.
        boolean isKnown = last != null && (estimating.get() || nowNanos - last.nanos < COMPACTIONS_AGE_MAX_NANOS);
        return isKnown ? last.compactions : Resources.UNKNOWN_TASKS;
    }

    /** What is asked less often. */
    private void askNode(long nowNanos, boolean isHeard)
    {
        if (nowNanos - hostIdNanos >= HOST_ID_EVERY_NANOS)
        {
            hostIdNanos = nowNanos;
            try
            {
                String id = node.hostId.get();
                hostId = id == null ? hostId : UUID.fromString(id);
            }
            catch (RuntimeException | AssertionError notNow)
            {
                // Asked again in two seconds.
            }
        }
        if (isHeard && nowNanos - compactionsNanos >= COMPACTIONS_EVERY_NANOS && estimating.compareAndSet(false, true))
        {
            compactionsNanos = nowNanos;
            estimator.execute(this::estimateCompactions);
        }
    }

    private void estimateCompactions()
    {
        try
        {
            compactions = new Estimate(Math.max(0, node.compactions.get()));
        }
        catch (RuntimeException | AssertionError notNow)
        {
            // Cassandra asserts, for instance, that a keyspace which has just been dropped is there.
            // Asked again in ten seconds.
        }
        finally
        {
            estimating.set(false);
        }
    }
}
