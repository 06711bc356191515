package io.helenus.agent;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;

import org.apache.cassandra.concurrent.DebuggableTask;
import org.apache.cassandra.db.ReadCommand;
import org.apache.cassandra.net.Message;
import org.apache.cassandra.net.Verb;
import org.apache.cassandra.service.StorageProxy.LocalReadRunnable;
import org.apache.cassandra.utils.WithResources;

/**
 * Classifies the tasks of the READ stage. Cassandra keeps this information in private fields. All of them
 * are looked up in the constructor, so a version without them is detected before anything is changed.
 */
final class ReadStageTasks implements OrderedExecutor.Kinds
{
    private final Field localCommand;
    private final Class<?> smallMessage;
    private final Field smallMessageField;
    private final Class<?> anyMessage;
    private final Method header;

    ReadStageTasks() throws ReflectiveOperationException
    {
        String handler = "org.apache.cassandra.net.InboundMessageHandler$";
        localCommand = opened(LocalReadRunnable.class.getDeclaredField("command"));
        smallMessage = Class.forName(handler + "ProcessSmallMessage");
        smallMessageField = opened(smallMessage.getDeclaredField("message"));
        anyMessage = Class.forName(handler + "ProcessMessage");
        header = opened(anyMessage.getDeclaredMethod("header"));
        require(localCommand.getType(), ReadCommand.class);
        require(smallMessageField.getType(), Message.class);
        require(header.getReturnType(), Message.Header.class);
    }

    private static <T extends AccessibleObject> T opened(T member)
    {
        member.setAccessible(true);
        return member;
    }

    private static void require(Class<?> found, Class<?> wanted) throws NoSuchFieldException
    {
        if (found != wanted)
            throw new NoSuchFieldException(found + " where " + wanted + " was expected");
    }

    /** Tasks that are not reads, or unknown, are treated like the reads that go first, so that they never starve. */
    @Override
    public ReadTask describe(Runnable task, WithResources surroundings, int clientPriority)
    {
        ReadKind kind = ReadKind.POINT_LOCAL;
        int priority = 0;
        int limit = Integer.MAX_VALUE;
        boolean range = false;
        try
        {
            ReadCommand command = command(task);
            if (command != null)
            {
                range = command.isRangeRequest();
                limit = range ? command.limits().count() : limit;
            }
            else if (anyMessage.isInstance(task))
            {
                // A large message is still in its serialized form.
                range = ((Message.Header) header.invoke(task)).verb == Verb.RANGE_REQ;
            }
            boolean remote = anyMessage.isInstance(task);
            kind = range ? ReadKind.RANGE : remote ? ReadKind.POINT_REMOTE : ReadKind.POINT_LOCAL;
            priority = remote || command == null ? 0 : clientPriority;
        }
        catch (ReflectiveOperationException | RuntimeException unreadable)
        {
            // Keep the defaults above.
        }
        return new ReadTask(kind, priority, limit, task, surroundings);
    }

    /** The text for {@code system_views.queries}. */
    @Override
    public String text(Runnable task)
    {
        if (task instanceof DebuggableTask)
            return ((DebuggableTask) task).description();
        try
        {
            ReadCommand command = command(task);
            if (command != null)
                return command.toCQLString();
        }
        catch (ReflectiveOperationException | RuntimeException unreadable)
        {
            // The name below is better than no row.
        }
        return task.getClass().getSimpleName();
    }

    private ReadCommand command(Runnable task) throws ReflectiveOperationException
    {
        if (task instanceof LocalReadRunnable)
            return (ReadCommand) localCommand.get(task);
        if (smallMessage.isInstance(task))
        {
            Object payload = ((Message<?>) smallMessageField.get(task)).payload;
            return payload instanceof ReadCommand ? (ReadCommand) payload : null;
        }
        return null;
    }
}
