<?php
// Receives notifications, in PHP 8.1 or newer without libraries.
//
// STORE=received WEBHOOK_SECRET=whsec_... php -S 127.0.0.1:9400 receiver.php
declare(strict_types=1);
ini_set('display_errors', '0'); // a printed warning would stand before `success`

const LARGEST_BODY = 1 << 20;

/** Whether these bytes were signed with this secret, no more than 300 s away from now. */
function verify(string $id, string $timestamp, string $signatures, string $secret, string $body, int $now): bool
{
    if (!preg_match('/\A[0-9]{1,12}\z/', $timestamp) || abs($now - (int) $timestamp) > 300) {
        return false;
    }
    // At least 24 bytes in base64, and nothing else: a public key (whpk_...) is known to others.
    if (!preg_match('~\Awhsec_([A-Za-z0-9+/]{4}){8,}([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z~', $secret)) {
        throw new InvalidArgumentException('not a signing secret');
    }
    $key = base64_decode(substr($secret, 6), true);
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    // Several while a secret is being changed; one has to match.
    foreach (explode(' ', $signatures) as $given) {
        if (hash_equals($expected, $given)) {
            return true;
        }
    }
    return false;
}

/** Keeps the body in a file named for the id, on disk at the end. False if it was there already. */
function store(string $directory, string $id, string $body): bool
{
    $draft = tempnam($directory, '.');
    $file = fopen($draft, 'wb');
    if (!$file || fwrite($file, $body) !== strlen($body) || !fsync($file)) {
        throw new RuntimeException('cannot write');
    }
    $isNew = @link($draft, "$directory/$id");
    unlink($draft);
    if (!is_file("$directory/$id") || !fsync(fopen($directory, 'r'))) {
        throw new RuntimeException('cannot store');
    }
    return $isNew;
}

/** @return array{int, string} */
function judge(): array
{
    // The raw bytes, before anything parses them. PHP has none of a multipart/form-data body.
    $body = file_get_contents('php://input', length: LARGEST_BODY + 1);
    if (strlen($body) > LARGEST_BODY) {
        return [413, 'too large'];
    }
    [$id, $timestamp, $signatures] = array_map(fn ($name) => $_SERVER["HTTP_WEBHOOK_$name"] ?? '', ['ID', 'TIMESTAMP', 'SIGNATURE']);
    // Two, separated by a space, while the secret is being changed. White space at the ends does not count.
    $isSigned = false;
    foreach (preg_split('/\s+/', trim((string) getenv('WEBHOOK_SECRET'), " \t\n\v\f\r")) as $secret) {
        $isSigned = verify($id, $timestamp, $signatures, $secret, $body, time()) || $isSigned;
    }
    // The id becomes a file name, so it may have no other characters.
    if (!preg_match('/\A[A-Za-z0-9_-]{1,64}\z/', $id) || !$isSigned) {
        return [401, 'bad signature'];
    }
    $directory = getenv('STORE') ?: 'received';
    is_dir($directory) || mkdir($directory);
    error_log((store($directory, $id, $body) ? 'stored' : 'repeated') . " $id");
    return [200, 'success']; // the work is done later, from what is stored
}

http_response_code(500); // unless the end is reached
try {
    [$status, $text] = judge();
} catch (Exception $failed) {
    error_log($failed->getMessage()); // not the stack, which shows the beginning of the secret
    [$status, $text] = [500, 'error'];
}
http_response_code($status);
header('Content-Type: text/plain');
echo $text;
