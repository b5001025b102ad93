// Registers a notification, in Java 17 or newer without libraries.
//
// RINGBACK_API_KEY=rbk_... java Register.java https://shop.example/notify order-1001 8.88
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

public class Register {
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static final String SERVER =
            System.getenv().getOrDefault("RINGBACK_SERVER", "http://127.0.0.1:8400");
    static final String KEY = System.getenv().getOrDefault("RINGBACK_API_KEY", "");

    static HttpResponse<String> register(String notification)
            throws IOException, InterruptedException {
        HttpRequest.Builder call = HttpRequest.newBuilder(URI.create(SERVER + "/v1/notifications"))
                .header("Content-Type", "application/json")
                .timeout(Duration.ofSeconds(10))
                .POST(HttpRequest.BodyPublishers.ofString(notification));
        if (!KEY.isEmpty()) {
            call.header("Authorization", "Bearer " + KEY);
        }
        return CLIENT.send(call.build(), HttpResponse.BodyHandlers.ofString());
    }

    public static void main(String[] args) throws InterruptedException {
        String url = args[0], order = args[1], amount = args[2];
        // A program of your own writes this with its JSON library.
        String notification = """
                {"topic": "payment.succeeded", "id": "%s", "url": "%s",
                 "body": {"order": "%s", "amount": "%s"}}""".formatted(order, url, order, amount);
        String problem = "no answer";
        // Sent again until it is certain: the same registration is never delivered twice.
        for (int attempt = 0; attempt < 5; attempt++) {
            try {
                HttpResponse<String> answer = register(notification);
                int status = answer.statusCode();
                if (status == 200 || status == 201) { // It is kept, and will be delivered.
                    System.out.println("registered " + order + ": " + status);
                    return;
                }
                problem = status + " " + answer.body();
                if (status != 429 && status != 503) {
                    break;
                }
            } catch (IOException broken) {
                problem = broken.toString();
            }
            Thread.sleep(1000); // It may have been kept or not.
        }
        System.err.println("not registered: " + problem);
        System.exit(1);
    }
}
