package io.helenus.agent;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.UUID;

import org.junit.jupiter.api.Test;

class ReportProtocolTest
{
    static final byte[] SECRET = "a secret of some length".getBytes();

    static byte[] nonce(int first)
    {
        byte[] nonce = new byte[ReportProtocol.NONCE];
        for (int i = 0; i < nonce.length; i++)
            nonce[i] = (byte) (first + i);
        return nonce;
    }

    static String hex(byte[] bytes)
    {
        StringBuilder text = new StringBuilder();
        for (byte b : bytes)
            text.append(String.format("%02x", b));
        return text.toString();
    }

    static Resources resources()
    {
        Resources resources = new Resources();
        resources.hostId = UUID.fromString("01234567-89ab-cdef-0123-456789abcdef");
        resources.sampledNanos = 5_000_000_000L;
        resources.cpuNode = 9_500;
        resources.cpuProcess = 4_000;
        resources.cpuMachine = 10_000;
        resources.coresMilli = 400;
        resources.diskUse = Resources.UNKNOWN;
        resources.diskQueueMilli = 1_500;
        resources.heapUsed = 300L << 20;
        resources.heapMax = 512L << 20;
        resources.collecting = 25;
        resources.collectedMs = 1_234;
        resources.readPending = 7;
        resources.readActive = 2;
        resources.readMax = 32;
        resources.mutationPending = 1;
        resources.mutationActive = 3;
        resources.mutationMax = 33;
        resources.compactionsPending = 5;
        return resources;
    }

    /** The same bytes as in the proxy's own test (crates/proxy/src/reports/wire/tests.rs). */
    @Test
    void reportAsTheProxyExpectsIt() throws Exception
    {
        byte[] key = ReportProtocol.sessionKey(SECRET, nonce(1), nonce(101));
        ByteBuffer report = ReportProtocol.report(key, 42, 5_000_250_000L, 200, resources());
        assertEquals(ReportProtocol.REPORT, report.remaining());
        assertEquals(REPORT_HEX, hex(report.array()));
        assertEquals(PROOF_HEX, hex(ReportProtocol.agentProof(SECRET, nonce(1), nonce(101))));
    }

    static final String REPORT_HEX =
        "4852505401000098000000000000002a00000000004c4b40000000fa00c8251c0fa02710ffff0019"
        + "000005dc000001900000000012c00000000000002000000000000000000004d20000000700000002"
        + "0000002000000001000000030000002100000005000000000123456789abcdef0123456789abcdef"
        + "10d061d33168e24355bf2fa04e75c427f4e504717938edd9a0b86396063e10a2";
    static final String PROOF_HEX =
        "cce84c94668ded250702f44f1d846803f936ed9405c6177ef8c417cd7657b2dc";

    static ByteBuffer answer(byte[] secret, byte[] agentNonce, byte[] proxyNonce) throws Exception
    {
        byte[] proof = ReportProtocol.mac(secret, "helenus report proxy".getBytes(), agentNonce, proxyNonce);
        return ByteBuffer.allocate(ReportProtocol.ANSWER)
                         .putInt(ReportProtocol.MAGIC).put(ReportProtocol.VERSION).put(new byte[3])
                         .put(proxyNonce).put(proof).flip();
    }

    @Test
    void onlyAProofOfTheSecretIsAccepted() throws Exception
    {
        byte[] proxy = nonce(101);
        assertArrayEquals(proxy, ReportProtocol.verify(SECRET, nonce(1), answer(SECRET, nonce(1), proxy)));
        assertNull(ReportProtocol.verify(SECRET, nonce(1), answer("another secret, as long".getBytes(), nonce(1), proxy)));
        assertNull(ReportProtocol.verify(SECRET, nonce(1), answer(ReportProtocol.OPEN, nonce(1), proxy)));
        assertNull(ReportProtocol.verify(SECRET, nonce(2), answer(SECRET, nonce(1), proxy)), "heard before");
        byte[] good = answer(SECRET, nonce(1), proxy).array();
        for (int at = 0; at < good.length; at++)
        {
            byte[] bad = Arrays.copyOf(good, good.length);
            bad[at] ^= 1;
            assertNull(ReportProtocol.verify(SECRET, nonce(1), ByteBuffer.wrap(bad)), "byte " + at);
        }
    }

    @Test
    void sharesAreNumbers()
    {
        assertEquals(Resources.UNKNOWN, Resources.share(Double.NaN));
        assertEquals(0, Resources.share(-1));
        assertEquals(Resources.WHOLE, Resources.share(Double.POSITIVE_INFINITY));
        assertEquals(5_000, Resources.share(0.5));
    }
}
