import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.locator.*;

/**
 * Prints the vectors beside this file with Cassandra's own classes. Seeds are
 * fixed, so a second run prints the same. With LIB a directory of Cassandra
 * 5.0.6's jars:
 *
 *   java -cp "$LIB/*" Vectors.java murmur3 > murmur3.txt
 *   java --add-exports java.base/jdk.internal.ref=ALL-UNNAMED \
 *        --add-exports java.base/jdk.internal.misc=ALL-UNNAMED \
 *        --add-exports java.base/sun.nio.ch=ALL-UNNAMED \
 *        --add-opens java.base/java.nio=ALL-UNNAMED \
 *        -cp "$LIB/*" Vectors.java replicas | grep -v main > replicas.txt
 *
 * (The last filter takes out log lines, which carry the thread's name.)
 */
public class Vectors
{
    public static void main(String[] args) throws Exception
    {
        if (args[0].equals("murmur3"))
            murmur3(new Random(42));
        else
            replicas(new Random(7));
        System.exit(0);
    }

    static void murmur3(Random random)
    {
        System.out.println("# key in hexadecimal, token; printed by Murmur3Partitioner of Apache Cassandra 5.0.6");
        printToken(new byte[0]);
        for (int length = 1; length <= 48; length++)
            for (int kind = 0; kind < 6; kind++)
            {
                byte[] key = new byte[length];
                random.nextBytes(key);
                // Bytes with the highest bit set are what Cassandra treats in its own way.
                if (kind == 1)
                    Arrays.fill(key, (byte) 0xff);
                if (kind == 2)
                    Arrays.fill(key, (byte) 0x80);
                if (kind == 3)
                    for (int i = 0; i < length; i++)
                        key[i] &= 0x7f;
                printToken(key);
            }
        for (int length : new int[]{ 255, 256, 257, 1000 })
        {
            byte[] key = new byte[length];
            random.nextBytes(key);
            printToken(key);
        }
        // The hash that is not allowed as a token, and its neighbours.
        for (long token : new long[]{ Long.MIN_VALUE, Long.MIN_VALUE + 1, Long.MAX_VALUE })
            printToken(LongToken.keyForToken(token).array());
    }

    static void printToken(byte[] key)
    {
        StringBuilder hex = new StringBuilder(key.length == 0 ? "-" : "");
        for (byte b : key)
            hex.append(String.format("%02x", b));
        System.out.println(hex + " " + Murmur3Partitioner.instance.getToken(ByteBuffer.wrap(key)));
    }

    /** Where each node of the current cluster is. */
    static final Map<InetAddressAndPort, String> dcs = new HashMap<>();
    static final Map<InetAddressAndPort, String> racks = new HashMap<>();

    static class Snitch extends AbstractNetworkTopologySnitch
    {
        public String getRack(InetAddressAndPort node) { return racks.get(node); }
        public String getDatacenter(InetAddressAndPort node) { return dcs.get(node); }
    }

    static void replicas(Random random) throws Exception
    {
        DatabaseDescriptor.clientInitialization();
        DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
        Snitch snitch = new Snitch();
        DatabaseDescriptor.setEndpointSnitch(snitch);
        System.out.println("# printed by SimpleStrategy and NetworkTopologyStrategy of Apache Cassandra 5.0.6");
        System.out.println("# cluster, then: node <dc> <rack> <token>.. | simple <rf> or topology <dc>=<rf>.. | replicas <token> <node>..");
        for (int cluster = 0; cluster < 40; cluster++)
            printCluster(random, snitch, cluster < 20 ? 6 : 12);
    }

    static void printCluster(Random random, Snitch snitch, int nodesMax) throws Exception
    {
        TokenMetadata metadata = new TokenMetadata(snitch);
        int dcCount = 1 + random.nextInt(3);
        int nodeCount = 1 + random.nextInt(nodesMax);
        int tokenCount = 1 + random.nextInt(4);
        int rackCount = 1 + random.nextInt(4);
        System.out.println("cluster");
        Map<InetAddressAndPort, Integer> indexes = new HashMap<>();
        List<Long> ring = new ArrayList<>();
        for (int i = 0; i < nodeCount; i++)
        {
            InetAddressAndPort node = InetAddressAndPort.getByName("127.0.0." + (i + 1));
            indexes.put(node, i);
            dcs.put(node, "dc" + (1 + random.nextInt(dcCount)));
            racks.put(node, "r" + (1 + random.nextInt(rackCount)));
            StringBuilder line = new StringBuilder("node " + dcs.get(node) + " " + racks.get(node));
            List<Token> tokens = new ArrayList<>();
            for (int k = 0; k < tokenCount; k++)
            {
                long token = random.nextLong();
                ring.add(token);
                tokens.add(new LongToken(token));
                line.append(" ").append(token);
            }
            metadata.updateNormalTokens(tokens, node);
            System.out.println(line);
        }

        int rf = 1 + random.nextInt(5);
        System.out.println("simple " + rf);
        Map<String, String> options = Map.of("replication_factor", Integer.toString(rf));
        printReplicas(random, new SimpleStrategy("ks", metadata, snitch, options), metadata, ring, indexes);

        // The second time with a data centre that does not exist and some without copies.
        for (int extra = 0; extra <= 1; extra++)
        {
            options = new TreeMap<>();
            StringBuilder line = new StringBuilder("topology");
            for (int dc = 1; dc <= dcCount + extra; dc++)
            {
                rf = random.nextInt(6);
                if (rf == 0 && extra == 0)
                    rf = 1;
                if (rf > 0)
                {
                    options.put("dc" + dc, Integer.toString(rf));
                    line.append(" dc" + dc + "=" + rf);
                }
            }
            if (options.isEmpty())
                continue;
            System.out.println(line);
            printReplicas(random, new NetworkTopologyStrategy("ks", metadata, snitch, options), metadata, ring, indexes);
        }
    }

    static void printReplicas(Random random, AbstractReplicationStrategy strategy, TokenMetadata metadata,
                              List<Long> ring, Map<InetAddressAndPort, Integer> indexes)
    {
        List<Long> tokens = new ArrayList<>(ring);
        for (int k = 0; k < 3; k++)
            tokens.add(random.nextLong());
        tokens.add(Long.MIN_VALUE);
        tokens.add(Long.MAX_VALUE);
        if (tokens.size() > 14)
        {
            Collections.shuffle(tokens, random);
            tokens = tokens.subList(0, 14);
        }
        for (long token : tokens)
        {
            StringBuilder line = new StringBuilder("replicas " + token);
            for (Replica replica : strategy.calculateNaturalReplicas(new LongToken(token), metadata))
                line.append(" ").append(indexes.get(replica.endpoint()));
            System.out.println(line);
        }
    }
}
