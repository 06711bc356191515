package io.helenus.agent;

import java.util.UUID;
import java.util.function.Supplier;

import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.UUIDType;
import org.apache.cassandra.db.virtual.AbstractVirtualTable;
import org.apache.cassandra.db.virtual.SimpleDataSet;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.schema.TableMetadata;

/** {@code helenus_agent.resources}: what the node that the client is connected to reports of itself, one row. */
final class ResourcesTable extends AbstractVirtualTable
{
    private final Supplier<Resources> latest;

    /** {@code latest}: null while nothing is measured. */
    ResourcesTable(Supplier<Resources> latest)
    {
        super(TableMetadata.builder(ReadOrderTable.KEYSPACE, "resources")
                           .comment("What this node uses of what it has, shares from 0 to 1 over the last second")
                           .kind(TableMetadata.Kind.VIRTUAL)
                           .partitioner(new LocalPartitioner(UUIDType.instance))
                           .addPartitionKeyColumn("host_id", UUIDType.instance)
                           .addRegularColumn("age_ms", LongType.instance)
                           .addRegularColumn("cpu_node", DoubleType.instance)
                           .addRegularColumn("cpu_process", DoubleType.instance)
                           .addRegularColumn("cpu_machine", DoubleType.instance)
                           .addRegularColumn("cores", DoubleType.instance)
                           .addRegularColumn("disk", DoubleType.instance)
                           .addRegularColumn("disk_queue", DoubleType.instance)
                           .addRegularColumn("heap_used", LongType.instance)
                           .addRegularColumn("heap_max", LongType.instance)
                           .addRegularColumn("collecting", DoubleType.instance)
                           .addRegularColumn("collected_ms", LongType.instance)
                           .addRegularColumn("read_pending", Int32Type.instance)
                           .addRegularColumn("read_active", Int32Type.instance)
                           .addRegularColumn("read_max", Int32Type.instance)
                           .addRegularColumn("mutation_pending", Int32Type.instance)
                           .addRegularColumn("mutation_active", Int32Type.instance)
                           .addRegularColumn("mutation_max", Int32Type.instance)
                           .addRegularColumn("compactions_pending", Int32Type.instance)
                           .build());
        this.latest = latest;
    }

    @Override
    public DataSet data()
    {
        SimpleDataSet rows = new SimpleDataSet(metadata());
        Resources now = latest.get();
        if (now == null)
            return rows;
        UUID id = now.hostId;
        rows.row(id)
            .column("age_ms", Math.max(0, System.nanoTime() - now.sampledNanos) / 1_000_000)
            .column("cpu_node", share(now.cpuNode))
            .column("cpu_process", share(now.cpuProcess))
            .column("cpu_machine", share(now.cpuMachine))
            .column("cores", now.coresMilli / 1_000.0)
            .column("disk", share(now.diskUse))
            .column("disk_queue", now.diskQueueMilli / 1_000.0)
            .column("heap_used", now.heapUsed)
            .column("heap_max", now.heapMax)
            .column("collecting", share(now.collecting))
            .column("collected_ms", now.collectedMs)
            .column("read_pending", now.readPending)
            .column("read_active", now.readActive)
            .column("read_max", now.readMax)
            .column("mutation_pending", now.mutationPending)
            .column("mutation_active", now.mutationActive)
            .column("mutation_max", now.mutationMax)
            .column("compactions_pending",
                    now.compactionsPending == Resources.UNKNOWN_TASKS ? null : (Integer) now.compactionsPending);
        return rows;
    }

    /** Null if it is not known. */
    private static Double share(int share)
    {
        return share == Resources.UNKNOWN ? null : (double) share / Resources.WHOLE;
    }
}
