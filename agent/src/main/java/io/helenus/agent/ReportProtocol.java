package io.helenus.agent;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;

import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * What an agent and a proxy say to each other. All numbers are big-endian, all messages of fixed length:
 *
 * <pre>
 * greeting, from the agent:  magic 4 · version 1 · flags 1 · interval in ms 2 · nonce 32
 * answer, from the proxy:    magic 4 · version 1 · zero 3 · nonce 32 · proof 32
 * acceptance, from the agent: proof 32
 * report, from the agent:    magic 4 · version 1 · zero 1 · length 2 · sequence 8 · time in µs 8 · age in µs 4
 *                            · interval in ms 2 · resources 90 · authenticator 32
 * </pre>
 *
 * <p>A proof is the HMAC-SHA256 of a label and both nonces under the secret; a report's authenticator is that
 * of the report under a key of this connection, which is made in the same way. So neither side needs to trust
 * the network, and nothing that was heard can be used again. Without a secret the key is {@link #OPEN}, which
 * everybody knows: then the authenticators are checksums.
 */
final class ReportProtocol
{
    static final int MAGIC = 0x48525054;
    static final byte VERSION = 1;
    static final byte HAS_SECRET = 1;
    static final int NONCE = 32;
    static final int PROOF = 32;
    static final int GREETING = 8 + NONCE;
    static final int ANSWER = 8 + NONCE + PROOF;
    /** A report without its authenticator. */
    static final int BODY = 120;
    static final int REPORT = BODY + PROOF;

    static final byte[] OPEN = label("helenus report without a secret");
    private static final byte[] PROXY = label("helenus report proxy");
    private static final byte[] AGENT = label("helenus report agent");
    private static final byte[] SESSION = label("helenus report session");

    private ReportProtocol()
    {
    }

    private static byte[] label(String text)
    {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    static ByteBuffer greeting(boolean hasSecret, int intervalMs, byte[] nonce)
    {
        ByteBuffer to = ByteBuffer.allocate(GREETING);
        to.putInt(MAGIC).put(VERSION).put(hasSecret ? HAS_SECRET : 0).putShort((short) intervalMs).put(nonce);
        return to.flip();
    }

    /** The proxy's nonce, if its answer proves that it knows the secret; else null. */
    static byte[] verify(byte[] secret, byte[] agentNonce, ByteBuffer answer) throws GeneralSecurityException
    {
        if (answer.getInt() != MAGIC || answer.get() != VERSION || answer.get() != 0 || answer.getShort() != 0)
            return null;
        byte[] proxyNonce = new byte[NONCE];
        byte[] proof = new byte[PROOF];
        answer.get(proxyNonce).get(proof);
        byte[] expected = mac(secret, PROXY, agentNonce, proxyNonce);
        // Takes equally long wherever they differ.
        return MessageDigest.isEqual(expected, proof) ? proxyNonce : null;
    }

    static byte[] agentProof(byte[] secret, byte[] agentNonce, byte[] proxyNonce) throws GeneralSecurityException
    {
        return mac(secret, AGENT, agentNonce, proxyNonce);
    }

    /** The key of the reports of one connection. */
    static byte[] sessionKey(byte[] secret, byte[] agentNonce, byte[] proxyNonce) throws GeneralSecurityException
    {
        return mac(secret, SESSION, agentNonce, proxyNonce);
    }

    static ByteBuffer report(byte[] key, long sequence, long nowNanos, int intervalMs, Resources resources)
        throws GeneralSecurityException
    {
        ByteBuffer to = ByteBuffer.allocate(REPORT);
        to.putInt(MAGIC).put(VERSION).put((byte) 0).putShort((short) REPORT);
        long ageMicros = Math.max(0, nowNanos - resources.sampledNanos) / 1_000;
        to.putLong(sequence).putLong(resources.sampledNanos / 1_000);
        to.putInt((int) Math.min(Integer.MAX_VALUE, ageMicros)).putShort((short) intervalMs);
        resources.put(to);
        assert to.position() == BODY;
        to.put(mac(key, Arrays.copyOf(to.array(), BODY)));
        return to.flip();
    }

    static byte[] mac(byte[] key, byte[]... parts) throws GeneralSecurityException
    {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        for (byte[] part : parts)
            mac.update(part);
        return mac.doFinal();
    }
}
