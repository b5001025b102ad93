// Receives notifications, in Java 17 or newer without libraries.
//
// PORT=9400 STORE=received WEBHOOK_SECRET=whsec_... java Receiver.java
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
    static final int LARGEST_BODY = 1 << 20;
    static final Path STORE = Path.of(System.getenv().getOrDefault("STORE", "received"));
    // Two, separated by a space, while the secret is being changed. White space at the ends does not count.
    static final String[] SECRETS = System.getenv().getOrDefault("WEBHOOK_SECRET", "").trim().split("\\s+");

    /** Whether these bytes were signed with this secret, no more than 300 s away from now. */
    static boolean verify(
            String id, String timestamp, String signatures, String secret, byte[] body, long now)
            throws GeneralSecurityException {
        if (!timestamp.matches("[0-9]{1,12}") || Math.abs(now - Long.parseLong(timestamp)) > 300) {
            return false;
        }
        // At least 24 bytes in base64, and nothing else: a public key (whpk_...) is known to others.
        if (!secret.matches("whsec_([A-Za-z0-9+/]{4}){8,}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")) {
            throw new IllegalArgumentException("not a signing secret");
        }
        byte[] key = Base64.getDecoder().decode(secret.substring(6));
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
        String expected = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
        // Several while a secret is being changed; one has to match.
        for (String given : signatures.split(" ")) {
            if (MessageDigest.isEqual(bytes(expected), bytes(given))) {
                return true;
            }
        }
        return false;
    }

    /** Keeps the body in a file named for the id, on disk at the end. False if it was there already. */
    static boolean store(String id, byte[] body) throws IOException {
        Path draft = Files.createTempFile(STORE, ".", "");
        try (FileChannel directory = FileChannel.open(STORE)) {
            Files.write(draft, body, StandardOpenOption.DSYNC);
            boolean isNew = true;
            try {
                Files.createLink(STORE.resolve(id), draft);
            } catch (FileAlreadyExistsException repeated) {
                isNew = false;
            }
            directory.force(true);
            return isNew;
        } finally {
            Files.delete(draft);
        }
    }

    static String answerTo(HttpExchange exchange, byte[] body) throws Exception {
        String[] headers = new String[3];
        String[] names = {"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"};
        for (int i = 0; i < names.length; i++) {
            headers[i] = exchange.getRequestHeaders().getOrDefault(names[i], List.of("")).get(0);
        }
        long now = Instant.now().getEpochSecond();
        boolean isSigned = false;
        for (String secret : SECRETS) {
            isSigned |= verify(headers[0], headers[1], headers[2], secret, body, now);
        }
        // The id becomes a file name, so it may have no other characters.
        if (!isSigned || !headers[0].matches("[A-Za-z0-9_-]{1,64}")) {
            return "401 bad signature";
        }
        System.out.println((store(headers[0], body) ? "stored " : "repeated ") + headers[0]);
        return "200 success"; // the work is done later, from what is stored
    }

    static void receive(HttpExchange exchange) throws IOException {
        String answer = "413 too large";
        try {
            // The raw bytes, before anything parses them.
            byte[] body = exchange.getRequestBody().readNBytes(LARGEST_BODY + 1);
            if (body.length <= LARGEST_BODY) {
                answer = answerTo(exchange, body);
            }
        } catch (Exception failed) {
            failed.printStackTrace();
            answer = "500 error";
        }
        byte[] text = bytes(answer.substring(4));
        exchange.sendResponseHeaders(Integer.parseInt(answer.substring(0, 3)), text.length);
        exchange.getResponseBody().write(text);
        exchange.close();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] args) throws Exception {
        for (String secret : SECRETS) {
            verify("", "0", "", secret, new byte[0], 0); // ends the program if it is no secret
        }
        Files.createDirectories(STORE);
        System.setProperty("sun.net.httpserver.maxReqTime", "10"); // seconds
        int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "9400"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", Receiver::receive);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.start();
        System.out.println("listening on 127.0.0.1:" + server.getAddress().getPort());
    }
}
