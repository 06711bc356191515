package io.helenus.agent;

import java.util.concurrent.TimeUnit;

import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.virtual.AbstractVirtualTable;
import org.apache.cassandra.db.virtual.SimpleDataSet;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.schema.TableMetadata;

/** {@code helenus_agent.read_order}: one row per class of reads, for the node that the client is connected to. */
final class ReadOrderTable extends AbstractVirtualTable
{
    static final String KEYSPACE = "helenus_agent";

    private final ReadQueue queue;

    ReadOrderTable(ReadQueue queue)
    {
        super(TableMetadata.builder(KEYSPACE, "read_order")
                           .comment("Reads by class since this node started")
                           .kind(TableMetadata.Kind.VIRTUAL)
                           .partitioner(new LocalPartitioner(UTF8Type.instance))
                           .addPartitionKeyColumn("class", UTF8Type.instance)
                           .addRegularColumn("waiting", Int32Type.instance)
                           .addRegularColumn("started", LongType.instance)
                           .addRegularColumn("due", LongType.instance)
                           .addRegularColumn("overtook", LongType.instance)
                           .addRegularColumn("prioritized", LongType.instance)
                           .addRegularColumn("wait_us_max", LongType.instance)
                           .build());
        this.queue = queue;
    }

    @Override
    public DataSet data()
    {
        SimpleDataSet rows = new SimpleDataSet(metadata());
        for (ReadQueue.Counters counters : queue.counters())
        {
            rows.row(counters.kind.label)
                .column("waiting", counters.waiting)
                .column("started", counters.started)
                .column("due", counters.due)
                .column("overtook", counters.overtook)
                .column("prioritized", counters.prioritized)
                .column("wait_us_max", TimeUnit.NANOSECONDS.toMicros(counters.waitNanosMax));
        }
        return rows;
    }
}
