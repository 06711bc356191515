package io.helenus.agent;

import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.util.Map;

import org.apache.cassandra.cql3.BatchQueryOptions;
import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.QueryHandler;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.statements.BatchStatement;
import org.apache.cassandra.service.ClientState;
import org.apache.cassandra.service.QueryState;
import org.apache.cassandra.transport.Dispatcher;
import org.apache.cassandra.transport.messages.ResultMessage;
import org.apache.cassandra.utils.MD5Digest;

/**
 * The class set in {@code -Dcassandra.custom_query_handler_class}: Cassandra creates an instance at startup,
 * which installs the agent. It passes every request to Cassandra's own handler, with the priority given by
 * the client.
 */
public final class ReadOrderHandler implements QueryHandler
{
    private final QueryHandler own = QueryProcessor.instance;

    /** @throws IllegalStateException which ends the node: one that starts and answers no query is worse than none */
    public ReadOrderHandler()
    {
        String missing = HandlerCalls.missing(QueryHandler.class);
        if (missing != null)
            throw new IllegalStateException("Helenus agent: this version of Cassandra calls " + missing
                                            + ", which this version of the agent does not have: remove"
                                            + " -Dcassandra.custom_query_handler_class from the node's options");
        Installer.install();
    }

    @Override
    public CQLStatement parse(String query, QueryState state, QueryOptions options)
    {
        return own.parse(query, state, options);
    }

    @Override
    public ResultMessage.Prepared prepare(String query, ClientState state, Map<String, ByteBuffer> customPayload)
    {
        return own.prepare(query, state, customPayload);
    }

    @Override
    public QueryHandler.Prepared getPrepared(MD5Digest id)
    {
        return own.getPrepared(id);
    }

    @Override
    public ResultMessage process(CQLStatement statement, QueryState state, QueryOptions options,
                                 Map<String, ByteBuffer> customPayload, Dispatcher.RequestTime requestTime)
    {
        return ClientPriority.serve(
            customPayload, () -> own.process(statement, state, options, customPayload, requestTime));
    }

    @Override
    public ResultMessage processPrepared(CQLStatement statement, QueryState state, QueryOptions options,
                                         Map<String, ByteBuffer> customPayload, Dispatcher.RequestTime requestTime)
    {
        return ClientPriority.serve(
            customPayload, () -> own.processPrepared(statement, state, options, customPayload, requestTime));
    }

    @Override
    public ResultMessage processBatch(BatchStatement statement, QueryState state, BatchQueryOptions options,
                                      Map<String, ByteBuffer> customPayload, Dispatcher.RequestTime requestTime)
    {
        return ClientPriority.serve(
            customPayload, () -> own.processBatch(statement, state, options, customPayload, requestTime));
    }

    // Early versions of 4.1 (to 4.1.5) call these instead. Without them the node would start, but answer no query.

    private static final MethodHandle PROCESS =
        HandlerCalls.find(QueryHandler.class, "process", ResultMessage.class, CQLStatement.class, QueryState.class,
                          QueryOptions.class, Map.class, long.class);
    private static final MethodHandle PROCESS_PREPARED =
        HandlerCalls.find(QueryHandler.class, "processPrepared", ResultMessage.class, CQLStatement.class,
                          QueryState.class, QueryOptions.class, Map.class, long.class);
    private static final MethodHandle PROCESS_BATCH =
        HandlerCalls.find(QueryHandler.class, "processBatch", ResultMessage.class, BatchStatement.class,
                          QueryState.class, BatchQueryOptions.class, Map.class, long.class);

    public ResultMessage process(CQLStatement statement, QueryState state, QueryOptions options,
                                 Map<String, ByteBuffer> customPayload, long startNanos)
    {
        return ClientPriority.serve(customPayload, () -> {
            try
            {
                return (ResultMessage) PROCESS.invokeExact(own, statement, state, options, customPayload, startNanos);
            }
            catch (Throwable failed)
            {
                return HandlerCalls.rethrow(failed);
            }
        });
    }

    public ResultMessage processPrepared(CQLStatement statement, QueryState state, QueryOptions options,
                                         Map<String, ByteBuffer> customPayload, long startNanos)
    {
        return ClientPriority.serve(customPayload, () -> {
            try
            {
                return (ResultMessage) PROCESS_PREPARED.invokeExact(own, statement, state, options, customPayload,
                                                                    startNanos);
            }
            catch (Throwable failed)
            {
                return HandlerCalls.rethrow(failed);
            }
        });
    }

    public ResultMessage processBatch(BatchStatement statement, QueryState state, BatchQueryOptions options,
                                      Map<String, ByteBuffer> customPayload, long startNanos)
    {
        return ClientPriority.serve(customPayload, () -> {
            try
            {
                return (ResultMessage) PROCESS_BATCH.invokeExact(own, statement, state, options, customPayload,
                                                                 startNanos);
            }
            catch (Throwable failed)
            {
                return HandlerCalls.rethrow(failed);
            }
        });
    }
}
