package io.helenus.agent;

import java.lang.reflect.Field;
import java.net.InetAddress;
import java.util.List;

import org.apache.cassandra.concurrent.ExecutorPlus;
import org.apache.cassandra.concurrent.LocalAwareExecutorPlus;
import org.apache.cassandra.concurrent.Stage;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.compaction.CompactionManager;
import org.apache.cassandra.db.virtual.VirtualKeyspace;
import org.apache.cassandra.db.virtual.VirtualKeyspaceRegistry;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Installs the agent, or leaves the node unchanged and logs why. */
final class Installer
{
    private static final Logger logger = LoggerFactory.getLogger(Installer.class);

    private Installer()
    {
    }

    static void install()
    {
        try
        {
            String version = FBUtilities.getReleaseVersionString();
            if (!version.startsWith("4.1.") && !version.startsWith("5.0."))
                throw new IllegalStateException("Cassandra " + version + " is not known to it, only 4.1 and 5.0");
            Settings settings = new Settings(System::getProperty);
            ExecutorPlus stage = Stage.READ.executor();
            if (!(stage instanceof LocalAwareExecutorPlus))
                throw new IllegalStateException("the READ stage is a " + stage.getClass().getName());
            ReadStageTasks tasks = new ReadStageTasks();
            Field executor = Stage.class.getDeclaredField("executor");
            executor.setAccessible(true);
            ReadQueue queue = new ReadQueue(settings.waitMaxMs * 1_000_000, settings.dueEvery);
            OrderedExecutor ordered = new OrderedExecutor(stage, queue, tasks);
            Reporter reporter = new Reporter(settings, Installer::sampler, Installer::clientAddress);
            VirtualKeyspaceRegistry.instance.register(
                new VirtualKeyspace(ReadOrderTable.KEYSPACE,
                                    List.of(new ReadOrderTable(queue), new ResourcesTable(reporter::latest))));
            // 5.0 has `unsafeSetExecutor`, which does just this; 4.1 does not.
            executor.set(Stage.READ, ordered);
            logger.info("Helenus agent: the READ stage starts points before ranges; what has waited {} ms is due"
                        + " and gets every start of {} (counters: {}.read_order)",
                        settings.waitMaxMs, settings.dueEvery, ReadOrderTable.KEYSPACE);
            if (settings.reportProblem != null)
                logger.warn("Helenus agent: no reports of this node's resources: {}", settings.reportProblem);
            if (settings.reportPort != 0)
                reporter.start();
        }
        catch (Throwable reason)
        {
            // Whatever the error, the node must start.
            logger.warn("Helenus agent: not installed, reads keep Cassandra's own order: {}", reason.toString());
            logger.debug("Helenus agent: not installed", reason);
        }
    }

    private static ResourceSampler sampler()
    {
        return new ResourceSampler(new ResourceSampler.Node(Stage.READ.executor(),
                                                            Stage.MUTATION.executor(),
                                                            CompactionManager.instance::getPendingTasks,
                                                            StorageService.instance::getLocalHostId,
                                                            DatabaseDescriptor.getAllDataFileLocations()));
    }

    private static InetAddress clientAddress()
    {
        return DatabaseDescriptor.getRpcAddress();
    }
}
