package io.helenus.agent;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
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

    public ReadOrderHandler()
    {
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

    // Early versions of 4.1 call these instead. Without them the node would start, but answer no query.

    public ResultMessage process(CQLStatement statement, QueryState state, QueryOptions options,
                                 Map<String, ByteBuffer> customPayload, long startNanos)
    {
        return earlier("process", statement, state, options, customPayload, startNanos);
    }

    public ResultMessage processPrepared(CQLStatement statement, QueryState state, QueryOptions options,
                                         Map<String, ByteBuffer> customPayload, long startNanos)
    {
        return earlier("processPrepared", statement, state, options, customPayload, startNanos);
    }

    public ResultMessage processBatch(BatchStatement statement, QueryState state, BatchQueryOptions options,
                                      Map<String, ByteBuffer> customPayload, long startNanos)
    {
        return earlier("processBatch", statement, state, options, customPayload, startNanos);
    }

    private ResultMessage earlier(String name, Object... arguments)
    {
        try
        {
            for (Method method : QueryHandler.class.getMethods())
                if (method.getName().equals(name))
                    return (ResultMessage) method.invoke(own, arguments);
            throw new NoSuchMethodError(name);
        }
        catch (InvocationTargetException failed)
        {
            return rethrow(failed.getCause());
        }
        catch (IllegalAccessException impossible)
        {
            throw new AssertionError("an interface's methods are public", impossible);
        }
    }

    /** Cassandra recognises errors for the client by their class, so they are passed on unwrapped. */
    @SuppressWarnings("unchecked")
    private static <T, E extends Throwable> T rethrow(Throwable failure) throws E
    {
        throw (E) failure;
    }
}
