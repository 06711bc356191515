import java.lang.reflect.Field;
import org.apache.cassandra.service.CassandraDaemon;
import org.apache.cassandra.transport.ProtocolVersion;
import sun.misc.Unsafe;

/**
 * Starts Cassandra as a node that does not know the newer protocol versions, as nodes before 4.0 did.
 * Neither 4.1 nor 5.0 has a setting for this. Run as a source file; the argument is the highest version.
 */
public class LimitProtocol
{
    public static void main(String[] args) throws Exception
    {
        ProtocolVersion highest = ProtocolVersion.valueOf("V" + args[0]);
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Unsafe unsafe = (Unsafe) field.get(null);
        for (String name : new String[] { "MAX_SUPPORTED_VERSION", "CURRENT" })
        {
            Field version = ProtocolVersion.class.getDeclaredField(name);
            unsafe.putObject(unsafe.staticFieldBase(version), unsafe.staticFieldOffset(version), highest);
        }
        ProtocolVersion.SUPPORTED.removeIf(version -> version.compareTo(highest) > 0);
        CassandraDaemon.main(new String[0]);
    }
}
