<?php
// Registers a notification, in PHP 8.1 or newer without libraries.
//
// RINGBACK_API_KEY=rbk_... php register.php https://shop.example/notify order-1001 8.88
declare(strict_types=1);

/** @return array{int, array<string, mixed>} The HTTP status (0: no answer came), and the notification or the problem. */
function register(array $notification): array
{
    $server = getenv('RINGBACK_SERVER') ?: 'http://127.0.0.1:8400';
    $headers = ['Content-Type: application/json'];
    if ($key = getenv('RINGBACK_API_KEY')) {
        $headers[] = "Authorization: Bearer $key";
    }
    $call = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => $headers,
        'content' => json_encode($notification, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES),
        'timeout' => 10,
        'ignore_errors' => true, // the document of a problem is read too
    ]]);
    $answer = @file_get_contents("$server/v1/notifications", false, $call);
    if ($answer === false) {
        return [0, ['detail' => 'no answer']];
    }
    return [(int) explode(' ', $http_response_header[0])[1], json_decode($answer, true) ?? []];
}

[, $url, $order, $amount] = $argv;
$notification = [
    'topic' => 'payment.succeeded',
    'id' => $order,
    'url' => $url,
    'body' => ['order' => $order, 'amount' => $amount],
];
// Sent again until it is certain: the same registration is never delivered twice.
for ($try = 0; $try < 5; $try++) {
    [$status, $answer] = register($notification);
    if ($status === 200 || $status === 201) { // It is kept, and will be delivered.
        echo "registered $order: $status {$answer['state']}\n";
        exit(0);
    }
    if (!in_array($status, [0, 429, 503], true)) {
        break;
    }
    sleep(1); // It may have been kept or not.
}
fwrite(STDERR, "not registered: $status " . ($answer['type'] ?? '') . ' ' . ($answer['detail'] ?? '') . "\n");
exit(1);
